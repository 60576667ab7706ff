"""pika: declaring, binding, deleting, purging, and where the exchange types send a message."""

import pika
from pika.exceptions import ChannelClosedByBroker

from scene import Scene, main


class Topology(Scene):
    def send(self, exchange, keys):
        self.channel.confirm_delivery()
        for key in keys:
            self.channel.basic_publish(exchange, key, key)

    def test_a_server_named_queue(self):
        declared = self.channel.queue_declare("", exclusive=True)
        self.assertTrue(declared.method.queue.startswith("amq.gen-"))

    def test_declare_tells_messages_and_consumers(self):
        queue = self.queue()
        self.fill(queue, ["a", "b"])
        self.consume(queue)
        self.deliveries(2)
        declared = self.channel.queue_declare(queue, passive=True).method
        self.assertEqual((declared.message_count, declared.consumer_count), (0, 1))

    def test_another_durability_is_refused(self):
        queue = self.queue()
        with self.assertRaises(ChannelClosedByBroker) as refusal:
            self.channel.queue_declare(queue, durable=False)
        self.assertEqual(refusal.exception.reply_code, 406)
        self.assertIn("inequivalent arg 'durable'", refusal.exception.reply_text)

    def test_purge_and_delete_count_messages(self):
        queue = self.queue()
        self.fill(queue, ["a", "b"])
        self.assertEqual(self.channel.queue_purge(queue).method.message_count, 2)
        self.fill(queue, ["c"])
        self.assertEqual(self.channel.queue_delete(queue).method.message_count, 1)

    def test_a_direct_exchange(self):
        exchange, queue = self.exchange("direct"), self.queue()
        self.channel.queue_bind(queue, exchange, "wanted")
        self.send(exchange, ["wanted", "other"])
        self.assertEqual(self.take_all(queue), ["wanted"])

    def test_a_fanout_exchange(self):
        exchange, queues = self.exchange("fanout"), [self.queue(), self.queue()]
        for queue in queues:
            self.channel.queue_bind(queue, exchange)
        self.send(exchange, ["any"])
        self.assertEqual([self.take_all(queue) for queue in queues], [["any"], ["any"]])

    def test_a_topic_exchange(self):
        exchange, queue = self.exchange("topic"), self.queue()
        self.channel.queue_bind(queue, exchange, "a.*")
        self.channel.queue_bind(queue, exchange, "#.z")
        self.send(exchange, ["a", "a.b", "a.b.c", "z", "x.y.z"])
        self.assertEqual(self.take_all(queue), ["a.b", "z", "x.y.z"])

    def test_unbinding(self):
        exchange, queue = self.exchange("direct"), self.queue()
        self.channel.queue_bind(queue, exchange, "key")
        self.channel.queue_unbind(queue, exchange, "key")
        self.send(exchange, ["key"])
        self.assertEqual(self.take_all(queue), [])

    def test_exchange_to_exchange(self):
        source, destination, queue = self.exchange("fanout"), self.exchange("fanout"), self.queue()
        self.channel.exchange_bind(destination, source)
        self.channel.queue_bind(queue, destination)
        self.send(source, ["far"])
        self.assertEqual(self.take_all(queue), ["far"])
        self.channel.exchange_unbind(destination, source)
        self.send(source, ["lost"])
        self.assertEqual(self.take_all(queue), [])

    def test_headers_and_properties_come_back_as_they_went(self):
        queue = self.queue()
        headers = {"text": "ä", "number": 5, "list": [1, "two"], "table": {"deep": True}}
        sent = pika.BasicProperties(
            content_type="text/plain",
            content_encoding="utf-8",
            headers=headers,
            delivery_mode=2,
            priority=3,
            correlation_id="c",
            reply_to="r",
            expiration="3600000",
            message_id="m",
            timestamp=1700000000,
            type="t",
            user_id="guest",
            app_id="a",
        )
        self.channel.confirm_delivery()
        self.channel.basic_publish("", queue, "body", sent)
        _, came, body = self.channel.basic_get(queue)
        self.assertEqual((body, came), (b"body", sent))


class QuorumTopology(Topology):
    kind = "quorum"


if __name__ == "__main__":
    main()
