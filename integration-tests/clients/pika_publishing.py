"""pika: confirms, mandatory returns, refused publishes, large bodies."""

import pika
from pika.exceptions import ChannelClosedByBroker, NackError, UnroutableError

from scene import Scene, main


class Publishing(Scene):
    def test_publishes_are_confirmed(self):
        queue = self.queue()
        self.channel.confirm_delivery()
        for n in range(100):
            self.channel.basic_publish("", queue, str(n), pika.BasicProperties(delivery_mode=2))
        self.assertEqual(self.take_all(queue), [str(n) for n in range(100)])

    def test_a_mandatory_message_without_a_route_is_returned(self):
        self.channel.confirm_delivery()
        with self.assertRaises(UnroutableError) as returned:
            self.channel.basic_publish("", self.name("nowhere"), "lost", mandatory=True)
        message = returned.exception.messages[0]
        self.assertEqual((message.method.reply_code, message.body), (312, b"lost"))

    def test_returns_come_without_confirms_too(self):
        returned = []
        self.channel.add_on_return_callback(lambda *came: returned.append(came))
        self.channel.basic_publish("", self.name("nowhere"), "lost", mandatory=True)
        self.until(lambda: returned, "a return")

    def test_a_full_queue_refuses(self):
        queue = self.queue(**{"x-max-length": 1, "x-overflow": "reject-publish"})
        self.channel.confirm_delivery()
        with self.assertRaises(NackError):
            # A quorum queue may take a few beyond its limit before it refuses.
            for _ in range(100):
                self.channel.basic_publish("", queue, "body")

    def test_a_missing_exchange_closes_the_channel(self):
        self.channel.confirm_delivery()
        with self.assertRaises(ChannelClosedByBroker) as refusal:
            self.channel.basic_publish(self.name("missing"), "key", "body")
        self.assertEqual(refusal.exception.reply_code, 404)

    def test_large_bodies_come_back_as_they_went(self):
        queue = self.queue()
        self.channel.confirm_delivery()
        for length in (0, 1, 131064, 131065, 3_000_000):
            body = bytes(n % 251 for n in range(length))
            self.channel.basic_publish("", queue, body)
            _, _, came = self.channel.basic_get(queue, auto_ack=True)
            self.assertTrue(came == body, f"a body of {length} octets has changed")

    def test_a_transaction_counts_with_its_commit(self):
        queue = self.queue()
        self.channel.tx_select()
        self.channel.basic_publish("", queue, "forgotten")
        self.channel.tx_rollback()
        self.channel.basic_publish("", queue, "kept")
        self.channel.tx_commit()
        self.assertEqual(self.take_all(queue), ["kept"])


class QuorumPublishing(Publishing):
    kind = "quorum"


if __name__ == "__main__":
    main()
