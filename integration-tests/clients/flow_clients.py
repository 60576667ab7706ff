"""Overfull queues and the Python clients: whoever publishes is slowed down, nobody loses a
connection, a channel or a consumer. One class a library, the same four stories for each:
with and without confirms, on a connection that only publishes and on one that consumes as well."""

import asyncio
import os
import threading
import time
import unittest
import uuid

import aio_pika
import amqp
import amqpstorm
import kombu
import pika

from scene import HOST, PATIENCE_S, PORT, parameters

# Messages of a story, and the capacity of its queue.
MESSAGES = int(os.environ.get("MESSAGES", "300"))
CAPACITY = 20
PREFETCH = 10


class Drain(threading.Thread):
    """Consumes a queue on a connection of its own."""

    def __init__(self, queue, wanted):
        super().__init__(daemon=True)
        self.queue = queue
        self.wanted = wanted
        self.bodies = []
        self.start()

    def run(self):
        connection = pika.BlockingConnection(parameters())
        channel = connection.channel()
        channel.basic_qos(prefetch_count=PREFETCH)
        for method, _, body in channel.consume(self.queue, inactivity_timeout=PATIENCE_S):
            if method is None:
                break
            self.bodies.append(int(body))
            channel.basic_ack(method.delivery_tag)
            if len(self.bodies) == self.wanted:
                break
        connection.close()

    def finish(self):
        self.join(2 * PATIENCE_S)
        return self.bodies


class Stories:
    """What each library must live through. Its class says how it publishes and consumes."""

    kind = "quorum"

    def setUp(self):
        self.queue = f"flow.{uuid.uuid4().hex[:12]}"
        self.control = pika.BlockingConnection(parameters())
        arguments = {
            "x-queue-type": self.kind,
            "x-capacity-messages": CAPACITY,
            "x-flow-resume-messages": CAPACITY // 2,
        }
        self.control.channel().queue_declare(self.queue, durable=True, arguments=arguments)
        self.addCleanup(self.clear_up)

    def clear_up(self):
        connection = pika.BlockingConnection(parameters())
        connection.channel().queue_delete(self.queue)
        connection.close()

    def whole(self, bodies):
        self.assertEqual(sorted(bodies), list(range(MESSAGES)))

    def test_confirms_on_a_connection_that_only_publishes(self):
        drain = Drain(self.queue, MESSAGES)
        self.publish_alone(True, drain.finish)
        self.whole(drain.bodies)

    def test_plain_on_a_connection_that_only_publishes(self):
        drain = Drain(self.queue, MESSAGES)
        # What waits for the queue goes with its channel, so that stays open until all is in.
        self.publish_alone(False, drain.finish)
        self.whole(drain.bodies)

    def test_confirms_on_a_connection_that_consumes_as_well(self):
        self.whole(self.publish_and_consume(confirm=True))

    def test_plain_on_a_connection_that_consumes_as_well(self):
        self.whole(self.publish_and_consume(confirm=False))


class Pika(Stories, unittest.TestCase):
    def publish_alone(self, confirm, drained):
        connection = pika.BlockingConnection(parameters())
        channel = connection.channel()
        if confirm:
            channel.confirm_delivery()
        for number in range(MESSAGES):
            channel.basic_publish("", self.queue, str(number))
        drained()
        self.finished(connection, channel)

    def publish_and_consume(self, confirm):
        connection = pika.BlockingConnection(parameters())
        publisher, consumer = connection.channel(), connection.channel()
        if confirm:
            # Its one thread sits in the publish call: somebody else must make room.
            publisher.confirm_delivery()
            drain = Drain(self.queue, MESSAGES)
        bodies = []

        def received(channel, method, _, body):
            bodies.append(int(body))
            channel.basic_ack(method.delivery_tag)

        consumer.basic_qos(prefetch_count=PREFETCH)
        queue = self.queue
        if confirm:
            queue = consumer.queue_declare("", exclusive=True).method.queue
        consumer.basic_consume(queue, received)
        for number in range(MESSAGES):
            publisher.basic_publish("", self.queue, str(number))
        deadline = time.monotonic() + PATIENCE_S
        while not confirm and len(bodies) < MESSAGES and time.monotonic() < deadline:
            connection.process_data_events(0.1)
        if confirm:
            consumer.basic_publish("", queue, "0")
            while not bodies and time.monotonic() < deadline:
                connection.process_data_events(0.1)
            self.assertEqual(bodies, [0], "the consumer is alive")
            bodies = drain.finish()
        self.finished(connection, publisher)
        return bodies

    def finished(self, connection, channel):
        connection.process_data_events(0)
        self.assertTrue(connection.is_open and channel.is_open)
        connection.close()


class AioPika(Stories, unittest.TestCase):
    def connect(self):
        return aio_pika.connect(f"amqp://guest:guest@{HOST}:{PORT}/")

    async def publish(self, channel):
        messages = [aio_pika.Message(str(number).encode()) for number in range(MESSAGES)]
        publishing = [
            channel.default_exchange.publish(message, self.queue) for message in messages
        ]
        await asyncio.gather(*publishing)

    def publish_alone(self, confirm, drained):
        async def story():
            connection = await self.connect()
            channel = await connection.channel(publisher_confirms=confirm)
            await self.publish(channel)
            await asyncio.to_thread(drained)
            # A call that is answered shows that the channel is sound.
            await channel.declare_queue(exclusive=True)
            await connection.close()

        asyncio.run(asyncio.wait_for(story(), 2 * PATIENCE_S))

    def publish_and_consume(self, confirm):
        async def story():
            connection = await self.connect()
            publisher = await connection.channel(publisher_confirms=confirm)
            consumer = await connection.channel()
            await consumer.set_qos(PREFETCH)
            queue = await consumer.get_queue(self.queue, ensure=False)
            bodies, done = [], asyncio.Event()

            async def received(message):
                await message.ack()
                bodies.append(int(message.body))
                if len(bodies) == MESSAGES:
                    done.set()

            await queue.consume(received)
            await self.publish(publisher)
            await done.wait()
            await publisher.declare_queue(exclusive=True)
            await connection.close()
            return bodies

        return asyncio.run(asyncio.wait_for(story(), 2 * PATIENCE_S))


class PyAmqp(Stories, unittest.TestCase):
    def connect(self, confirm):
        connection = amqp.Connection(
            f"{HOST}:{PORT}", userid="guest", password="guest", confirm_publish=confirm
        )
        connection.connect()
        return connection

    def publish(self, channel):
        for number in range(MESSAGES):
            channel.basic_publish(amqp.Message(str(number)), routing_key=self.queue)

    def publish_alone(self, confirm, drained):
        connection = self.connect(confirm)
        self.publish(connection.channel())
        drained()
        self.finished(connection)

    def publish_and_consume(self, confirm):
        connection = self.connect(confirm)
        publisher, consumer = connection.channel(), connection.channel()
        bodies = []

        def received(message):
            bodies.append(int(message.body))
            consumer.basic_ack(message.delivery_tag)

        consumer.basic_qos(0, PREFETCH, False)
        consumer.basic_consume(self.queue, callback=received)
        self.publish(publisher)
        while len(bodies) < MESSAGES:
            connection.drain_events(timeout=PATIENCE_S)
        self.finished(connection)
        return bodies

    def finished(self, connection):
        connection.channel().close()
        self.assertTrue(connection.connected)
        connection.close()


class Kombu(Stories, unittest.TestCase):
    def connect(self, confirm):
        options = {"confirm_publish": confirm}
        url = f"amqp://guest:guest@{HOST}:{PORT}//"
        return kombu.Connection(url, transport_options=options)

    def publish(self, connection):
        producer = connection.Producer()
        for number in range(MESSAGES):
            producer.publish(str(number), routing_key=self.queue)

    def publish_alone(self, confirm, drained):
        with self.connect(confirm) as connection:
            self.publish(connection)
            drained()
            connection.channel().close()
            self.assertTrue(connection.connected)

    def publish_and_consume(self, confirm):
        bodies = []
        with self.connect(confirm) as connection:
            queue = kombu.Queue(self.queue, no_declare=True)

            def received(body, message):
                bodies.append(int(body))
                message.ack()

            with connection.Consumer(
                queue, callbacks=[received], prefetch_count=PREFETCH, auto_declare=False
            ):
                self.publish(connection)
                while len(bodies) < MESSAGES:
                    connection.drain_events(timeout=PATIENCE_S)
            self.assertTrue(connection.connected)
        return bodies


class AmqpStorm(Stories, unittest.TestCase):
    def connect(self):
        return amqpstorm.Connection(HOST, "guest", "guest", port=PORT)

    def publish(self, channel, confirm):
        if confirm:
            channel.confirm_deliveries()
        for number in range(MESSAGES):
            channel.basic.publish(str(number), self.queue)

    def publish_alone(self, confirm, drained):
        connection = self.connect()
        channel = connection.channel(rpc_timeout=2 * PATIENCE_S)
        self.publish(channel, confirm)
        drained()
        self.finished(connection, channel)

    def publish_and_consume(self, confirm):
        connection = self.connect()
        publisher = connection.channel(rpc_timeout=2 * PATIENCE_S)
        consumer = connection.channel(rpc_timeout=2 * PATIENCE_S)
        bodies = []

        def received(message):
            bodies.append(int(message.body))
            message.ack()
            if len(bodies) == MESSAGES:
                consumer.stop_consuming()

        consumer.basic.qos(PREFETCH)
        consumer.basic.consume(received, self.queue)
        consuming = threading.Thread(target=consumer.start_consuming, daemon=True)
        consuming.start()
        self.publish(publisher, confirm)
        consuming.join(PATIENCE_S)
        self.finished(connection, publisher)
        return bodies

    def finished(self, connection, channel):
        connection.check_for_errors()
        channel.check_for_errors()
        self.assertTrue(connection.is_open and channel.is_open)
        connection.close()


class PikaOnClassicQueues(Pika):
    kind = "classic"


if __name__ == "__main__":
    unittest.main(verbosity=2)
