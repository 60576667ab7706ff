//! What a client in Rust lives through at a queue that holds publishers: with and without confirms,
//! on own connections and on a shared one. Must not know any client library.

use std::fmt::Debug;

use integration_tests::connection::PATIENCE;

/// Tells the story of a queue, of confirms or none, and of one connection or two, in all its forms.
pub(crate) fn tell_all<Story, Fault: Debug>(
    name: impl Fn() -> String,
    story: impl Fn(String, bool, bool) -> Story,
) where
    Story: Future<Output = Result<(), Fault>>,
{
    let runtime = tokio::runtime::Runtime::new().expect("A runtime needs threads only.");
    runtime.block_on(async {
        for confirm in [true, false] {
            for shared in [true, false] {
                let story = story(name(), confirm, shared);
                tokio::time::timeout(2 * PATIENCE, story)
                    .await
                    .expect("The story must end in time.")
                    .expect("The broker must do as asked.");
            }
        }
    });
}
