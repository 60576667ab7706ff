"""pika: the rules of quorum queues, with kill -9 of the broker between the two halves of the script.
PHASE says which half runs; what the first leaves the second finds."""

import os
import time
import unittest

import pika

from scene import PATIENCE_S, parameters

PHASE = os.environ["PHASE"]
# Nobody waits until the end of a delivery is written; by then it is, many times over.
WRITTEN_AFTER_S = 0.2


def soon(look, what):
    """The first true answer of `look`."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        answer = look()
        if answer:
            return answer
        time.sleep(0.01)
    raise AssertionError(f"{what} never came")


class Quorum(unittest.TestCase):
    def setUp(self):
        self.connection = pika.BlockingConnection(parameters())
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        self.addCleanup(self.connection.close)

    def declare(self, queue, **arguments):
        arguments = {"x-queue-type": "quorum"} | {
            f"x-{key.replace('_', '-')}": value for key, value in arguments.items()
        }
        self.channel.queue_declare(queue, durable=True, arguments=arguments)

    def publish(self, queue, body, exchange="", **properties):
        self.channel.basic_publish(exchange, queue, body, pika.BasicProperties(**properties))

    def get(self, queue):
        def look():
            got = self.channel.basic_get(queue)
            return got if got[0] else None

        return soon(look, f"a message of {queue}")

    def ready(self, queue):
        return self.channel.queue_declare(queue, passive=True).method.message_count


@unittest.skipUnless(PHASE == "before", "the first half")
class Before(Quorum):
    def tearDown(self):
        time.sleep(WRITTEN_AFTER_S)

    def test_a_message_is_returned_twice(self):
        self.declare("limit", delivery_limit=2, dead_letter_exchange="",
                     dead_letter_routing_key="limit.dead")
        self.declare("limit.dead")
        self.publish("limit", "a")
        for _ in range(2):
            method, _, _ = self.get("limit")
            self.channel.basic_nack(method.delivery_tag, requeue=True)
        self.publish("limit", "mark")

    def test_a_message_is_held_back(self):
        self.declare("retry", delayed_retry_type="all", delayed_retry_min=5000)
        self.publish("retry", "a")
        method, _, _ = self.get("retry")
        self.channel.basic_reject(method.delivery_tag, requeue=True)
        self.publish("retry", "mark")
        self.assertEqual(self.ready("retry"), 1)

    def test_a_dead_letter_waits_for_its_exchange(self):
        self.declare("dead", dead_letter_exchange="dead.later",
                     dead_letter_strategy="at-least-once")
        self.publish("dead", "a")
        method, _, _ = self.get("dead")
        reason = pika.BasicProperties(headers={"delivery-tag": method.delivery_tag})
        self.channel.basic_publish("sluicemq.reason", "", "no such order", reason)
        self.channel.basic_reject(method.delivery_tag, requeue=False)
        self.publish("dead", "mark")

    def test_a_late_consumer_is_closed_with_406(self):
        self.declare("late", consumer_timeout=200)
        self.publish("late", "a")
        slow = self.connection.channel()
        slow.basic_consume("late", lambda *_: None)
        with self.assertRaises(pika.exceptions.ChannelClosedByBroker) as closed:
            while True:
                time.sleep(0.05)
                slow.queue_declare("late", passive=True)
        self.assertEqual(closed.exception.reply_code, 406)
        self.assertIn("Timeout value used: 200 ms", closed.exception.reply_text)
        self.publish("late", "mark")

    def test_a_message_waits_in_a_delayed_exchange(self):
        self.channel.exchange_declare("delayed", "x-delayed-message", durable=True,
                                      arguments={"x-delayed-type": "fanout"})
        self.declare("delayed.queue")
        self.channel.queue_bind("delayed.queue", "delayed")
        self.publish("", "a", exchange="delayed", headers={"x-delay": 1500})

    def test_a_queue_is_full_to_its_limit(self):
        self.declare("full", max_length=2, overflow="reject-publish", expire_anywhere=True)
        self.publish("full", "a")
        self.publish("full", "b", expiration="1500")
        with self.assertRaises(pika.exceptions.NackError):
            self.publish("full", "c")


@unittest.skipUnless(PHASE == "after", "the second half")
class After(Quorum):
    def test_the_third_return_dead_letters(self):
        method, properties, body = self.get("limit")
        self.assertEqual((body, properties.headers["x-delivery-count"]), (b"a", 2))
        self.channel.basic_nack(method.delivery_tag, requeue=True)
        _, properties, body = self.get("limit.dead")
        self.assertEqual((body, properties.headers["x-death"][0]["reason"]),
                         (b"a", "delivery_limit"))

    def test_the_returned_message_comes_back_after_its_delay(self):
        self.assertEqual(self.get("retry")[2], b"mark")
        _, properties, body = self.get("retry")
        self.assertEqual((body, properties.headers["x-delivery-count"]), (b"a", 1))

    def test_the_dead_letter_goes_when_its_exchange_is_there(self):
        self.assertEqual(self.ready("dead"), 1)
        self.channel.exchange_declare("dead.later", "fanout", durable=True)
        self.declare("dead.target")
        self.channel.queue_bind("dead.target", "dead.later")
        _, properties, body = self.get("dead.target")
        self.assertEqual((body, properties.headers["x-last-death-reason"]), (b"a", "rejected"))

    def test_the_late_message_is_redelivered(self):
        method, _, body = self.get("late")
        self.assertEqual((body, method.redelivered), (b"a", True))

    def test_the_delayed_message_comes_with_its_delay_negated(self):
        _, properties, body = self.get("delayed.queue")
        self.assertEqual((body, properties.headers["x-delay"]), (b"a", -1500))

    def test_the_full_queue_has_room_when_a_message_has_expired(self):
        def takes():
            try:
                self.publish("full", "c")
                return True
            except pika.exceptions.NackError:
                return False

        soon(takes, "room")
        self.assertFalse(takes())
        self.assertEqual([self.get("full")[2], self.get("full")[2]], [b"a", b"c"])


if __name__ == "__main__":
    unittest.main()
