"""pika: get, consume, prefetch, ack, nack, reject, recover, cancel."""

from pika.exceptions import ChannelClosedByBroker

from scene import Scene, main


class Consuming(Scene):
    def bodies(self, count):
        return [body for _, _, body in self.deliveries(count)]

    def test_get(self):
        queue = self.queue()
        self.fill(queue, ["a", "b"])
        method, _, body = self.channel.basic_get(queue)
        self.assertEqual((body, method.message_count, method.redelivered), (b"a", 1, False))
        self.channel.basic_ack(method.delivery_tag)
        self.assertEqual(self.take_all(queue), ["b"])
        self.assertEqual(self.channel.basic_get(queue), (None, None, None))

    def test_consume_and_ack(self):
        queue = self.queue()
        self.fill(queue, ["a", "b", "c"])
        self.consume(queue)
        self.assertEqual(self.bodies(3), ["a", "b", "c"])
        self.channel.basic_ack(3, multiple=True)
        self.connection.close()
        self.setUp()
        self.assertEqual(self.channel.basic_get(queue), (None, None, None))
        self.queues.append(queue)

    def test_prefetch(self):
        queue = self.queue()
        self.fill(queue, ["a", "b", "c", "d"])
        self.channel.basic_qos(prefetch_count=2)
        self.consume(queue)
        self.deliveries(2)
        self.quiet()
        self.assertEqual(len(self.came), 2)
        self.channel.basic_ack(1)
        self.assertEqual(self.bodies(3), ["a", "b", "c"])

    def test_nack_and_reject_put_messages_back(self):
        queue = self.queue()
        self.fill(queue, ["a"])
        self.consume(queue)
        self.deliveries(1)
        self.channel.basic_nack(1, requeue=True)
        self.deliveries(2)
        self.channel.basic_reject(2, requeue=True)
        came = self.deliveries(3)
        flags = [(method.redelivered, body) for method, _, body in came]
        self.assertEqual(flags, [(False, "a"), (True, "a"), (True, "a")])

    def test_reject_without_requeue_discards(self):
        queue = self.queue()
        self.fill(queue, ["a", "b"])
        method, _, _ = self.channel.basic_get(queue)
        self.channel.basic_reject(method.delivery_tag, requeue=False)
        self.assertEqual(self.take_all(queue), ["b"])

    def test_recover_puts_all_back(self):
        queue = self.queue()
        self.fill(queue, ["a", "b"])
        self.consume(queue)
        self.deliveries(2)
        self.channel.basic_recover(requeue=True)
        came = self.deliveries(4)
        self.assertEqual([(method.redelivered, body) for method, _, body in came[2:]],
                         [(True, "a"), (True, "b")])

    def test_cancel_leaves_messages_to_others(self):
        queue = self.queue()
        tag = self.consume(queue)
        self.channel.basic_cancel(tag)
        self.fill(queue, ["a"])
        self.quiet()
        self.assertEqual(self.came, [])
        self.assertEqual(self.take_all(queue), ["a"])

    def test_a_deleted_queue_cancels_its_consumer(self):
        queue = self.queue()
        cancelled = []
        self.channel.add_on_cancel_callback(cancelled.append)
        tag = self.consume(queue)
        self.connection.channel().queue_delete(queue)
        self.until(lambda: cancelled, "a cancel")
        self.assertEqual(cancelled[0].method.consumer_tag, tag)

    def test_auto_ack(self):
        queue = self.queue()
        self.fill(queue, ["a", "b"])
        self.consume(queue, auto_ack=True)
        self.assertEqual(self.bodies(2), ["a", "b"])
        self.channel.close()
        self.channel = self.connection.channel()
        self.assertEqual(self.channel.basic_get(queue), (None, None, None))

    def test_the_generator_of_pika(self):
        queue = self.queue()
        self.fill(queue, ["a", "b", "c"])
        taken = []
        for method, _, body in self.channel.consume(queue, inactivity_timeout=10):
            self.assertIsNotNone(method, "expected a message; the generator timed out")
            taken.append(body.decode())
            self.channel.basic_ack(method.delivery_tag)
            if len(taken) == 3:
                break
        self.channel.cancel()
        self.assertEqual(taken, ["a", "b", "c"])

    def test_an_unknown_tag_closes_the_channel(self):
        self.channel.basic_ack(99)
        with self.assertRaises(ChannelClosedByBroker) as refusal:
            self.channel.queue_declare("", exclusive=True)
        self.assertEqual(refusal.exception.reply_code, 406)
        self.assertIn("unknown delivery tag 99", refusal.exception.reply_text)


class QuorumConsuming(Consuming):
    kind = "quorum"


if __name__ == "__main__":
    main()
