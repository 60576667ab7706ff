//! Topic bindings as a trie of words.
//!
//! A key is walked word by word with the set of nodes that the words so far lead to, so that no
//! key and no binding makes the walk go back: its cost is words × nodes reached. Every binding is
//! one path; binding and unbinding touch that path only.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::TOPIC_HASHES_MAX;
use super::table::{Target, TargetSet, Targets};
use crate::refusal::BindingFault;

const STAR: &[u8] = b"*";
const HASH: &[u8] = b"#";

/// The place of a node; `NO_NODE` is none.
type NodeIndex = u32;

const NO_NODE: NodeIndex = NodeIndex::MAX;
const ROOT: NodeIndex = 0;

/// Refuses keys that would make a walk expensive.
pub(crate) fn check_key(key: &str) -> Result<(), BindingFault> {
    let count = words(key.as_bytes()).filter(|word| *word == HASH).count();
    if count > TOPIC_HASHES_MAX {
        return Err(BindingFault::TooManyHashes {
            key: key.into(),
            count,
        });
    }
    Ok(())
}

/// The words of a key; the empty key has none.
// amqp 3.1.3.3
pub(crate) fn words(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    let count = if key.is_empty() { 0 } else { usize::MAX };
    key.split(|byte| *byte == b'.').take(count)
}

/// Whether a binding key matches a routing key: the rule itself, for explanations and as the
/// trie's judge.
pub(crate) fn key_matches(binding_key: &[u8], routing_key: &[u8]) -> bool {
    let pattern: Vec<&[u8]> = words(binding_key).collect();
    let key: Vec<&[u8]> = words(routing_key).collect();
    words_match(&pattern, &key)
}

fn words_match(pattern: &[&[u8]], key: &[&[u8]]) -> bool {
    let Some((first, rest)) = pattern.split_first() else {
        return key.is_empty();
    };
    if *first == HASH {
        return (0..=key.len()).any(|skipped| words_match(rest, &key[skipped..]));
    }
    let Some((word, further)) = key.split_first() else {
        return false;
    };
    (*first == STAR || first == word) && words_match(rest, further)
}

/// The bindings of a topic exchange.
#[derive(Clone, Debug)]
pub(crate) struct TopicTrie {
    nodes: Vec<Node>,
    /// Nodes that no path uses.
    free: Vec<NodeIndex>,
}

#[derive(Clone, Debug)]
struct Node {
    literals: FxHashMap<Box<[u8]>, NodeIndex>,
    star: NodeIndex,
    hash: NodeIndex,
    /// Whether a `#` is on the path to this node, itself excluded. Only such a node can be reached
    /// more than once in one walk.
    under_hash: bool,
    targets: TargetSet,
}

impl Node {
    fn new(under_hash: bool) -> Self {
        Self {
            literals: FxHashMap::default(),
            star: NO_NODE,
            hash: NO_NODE,
            under_hash,
            targets: TargetSet::default(),
        }
    }

    fn child(&self, word: &[u8]) -> NodeIndex {
        match word {
            STAR => self.star,
            HASH => self.hash,
            literal => self.literals.get(literal).copied().unwrap_or(NO_NODE),
        }
    }

    fn set_child(&mut self, word: &[u8], child: NodeIndex) {
        match word {
            STAR => self.star = child,
            HASH => self.hash = child,
            literal if child == NO_NODE => {
                self.literals.remove(literal);
            }
            literal => {
                self.literals.insert(literal.into(), child);
            }
        }
    }

    fn is_leaf(&self) -> bool {
        self.literals.is_empty() && self.star == NO_NODE && self.hash == NO_NODE
    }
}

impl Default for TopicTrie {
    fn default() -> Self {
        Self {
            nodes: vec![Node::new(false)],
            free: Vec::new(),
        }
    }
}

impl TopicTrie {
    pub(crate) fn bind(&mut self, key: &str, target: Target) {
        let mut at = ROOT;
        let mut under_hash = false;
        for word in words(key.as_bytes()) {
            let child = self.node(at).child(word);
            at = if child == NO_NODE {
                self.add_child(at, word, under_hash)
            } else {
                child
            };
            under_hash |= word == HASH;
        }
        self.node_mut(at).targets.add(target);
    }

    pub(crate) fn unbind(&mut self, key: &str, target: Target) {
        let mut path: SmallVec<[(NodeIndex, &[u8]); 8]> = SmallVec::new();
        let mut at = ROOT;
        for word in words(key.as_bytes()) {
            path.push((at, word));
            at = self.node(at).child(word);
            if at == NO_NODE {
                return;
            }
        }
        self.node_mut(at).targets.remove(target);
        self.prune(at, path);
    }

    /// Appends the targets of all bindings that match.
    pub(crate) fn route(&self, key: &[u8], out: &mut Targets) {
        let mut walk = Walk {
            trie: self,
            reached: SmallVec::new(),
            hashes: SmallVec::new(),
        };
        walk.enter(ROOT, out);
        for word in words(key) {
            if walk.is_over() {
                break;
            }
            walk.step(word, out);
        }
        walk.finish(out);
    }

    fn node(&self, at: NodeIndex) -> &Node {
        &self.nodes[at as usize]
    }

    fn node_mut(&mut self, at: NodeIndex) -> &mut Node {
        &mut self.nodes[at as usize]
    }

    fn add_child(&mut self, parent: NodeIndex, word: &[u8], under_hash: bool) -> NodeIndex {
        let node = Node::new(under_hash);
        let child = match self.free.pop() {
            Some(place) => {
                *self.node_mut(place) = node;
                place
            }
            None => {
                self.nodes.push(node);
                NodeIndex::try_from(self.nodes.len() - 1)
                    .expect("bindings are bounded far below 2^32")
            }
        };
        self.node_mut(parent).set_child(word, child);
        child
    }

    /// Frees the end of a path that no binding uses any more.
    fn prune(&mut self, last: NodeIndex, mut path: SmallVec<[(NodeIndex, &[u8]); 8]>) {
        let mut at = last;
        while let Some((parent, word)) = path.pop() {
            let node = self.node(at);
            if !node.is_leaf() || !node.targets.is_empty() {
                return;
            }
            self.node_mut(parent).set_child(word, NO_NODE);
            *self.node_mut(at) = Node::new(false);
            self.free.push(at);
            at = parent;
        }
        self.shrink();
    }

    /// An empty trie keeps nothing.
    fn shrink(&mut self) {
        if self.nodes.len() == self.free.len() + 1 {
            self.nodes.truncate(1);
            self.nodes.shrink_to_fit();
            self.free = Vec::new();
        }
    }
}

/// The nodes that the words so far lead to.
struct Walk<'a> {
    trie: &'a TopicTrie,
    /// Reached by exactly the words so far.
    reached: SmallVec<[NodeIndex; 16]>,
    /// `#` nodes: once reached they stay, since they take every further word.
    hashes: SmallVec<[NodeIndex; 8]>,
}

impl Walk<'_> {
    fn is_over(&self) -> bool {
        self.reached.is_empty() && self.hashes.is_empty()
    }

    fn enter(&mut self, node: NodeIndex, out: &mut Targets) {
        self.reached.push(node);
        self.enter_hash(self.trie.node(node).hash, out);
    }

    fn enter_hash(&mut self, hash: NodeIndex, out: &mut Targets) {
        if hash == NO_NODE {
            return;
        }
        let node = self.trie.node(hash);
        if !node.under_hash && node.is_leaf() {
            // Matches whatever follows: nothing to walk on.
            out.extend(node.targets.iter());
            return;
        }
        if node.under_hash && self.hashes.contains(&hash) {
            return;
        }
        self.hashes.push(hash);
        self.enter_hash(node.hash, out);
    }

    fn step(&mut self, word: &[u8], out: &mut Targets) {
        let from = std::mem::take(&mut self.reached);
        let stayed = self.hashes.len();
        for node in from {
            self.follow(node, word, out);
        }
        for place in 0..stayed {
            self.follow(self.hashes[place], word, out);
        }
    }

    fn follow(&mut self, node: NodeIndex, word: &[u8], out: &mut Targets) {
        let node = self.trie.node(node);
        if let Some(child) = node.literals.get(word) {
            self.enter(*child, out);
        }
        if node.star != NO_NODE {
            self.enter(node.star, out);
        }
    }

    fn finish(&self, out: &mut Targets) {
        for node in self.reached.iter().chain(&self.hashes) {
            out.extend(self.trie.node(*node).targets.iter());
        }
    }
}

#[cfg(test)]
mod tests;
