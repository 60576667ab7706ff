"""What every pika script shares: where the broker is, names that nobody else uses, and queues that
go after the test. Knows pika's blocking connection only."""

import os
import unittest
import uuid

import pika

HOST = os.environ.get("AMQP_HOST", "127.0.0.1")
PORT = int(os.environ.get("AMQP_PORT", "5672"))
# How long a test waits for something that must come, seconds.
PATIENCE_S = 20


def parameters(user="guest", password="guest", **more):
    """Connection parameters for the broker under test."""
    credentials = pika.PlainCredentials(user, password)
    return pika.ConnectionParameters(HOST, PORT, credentials=credentials, **more)


class Scene(unittest.TestCase):
    """A test with a connection and a channel of its own."""

    kind = "classic"

    def setUp(self):
        self.connection = pika.BlockingConnection(parameters())
        self.channel = self.connection.channel()
        self.queues = []
        self.exchanges = []
        self.addCleanup(self.clear_up)

    def clear_up(self):
        """Ends the test's connection and deletes what it declared, from a connection that works."""
        if self.connection.is_open:
            self.connection.close()
        connection = pika.BlockingConnection(parameters())
        channel = connection.channel()
        for queue in self.queues:
            channel.queue_delete(queue)
        for exchange in self.exchanges:
            channel.exchange_delete(exchange)
        connection.close()

    def name(self, stem):
        return f"{stem}.{uuid.uuid4().hex[:12]}"

    def queue(self, **arguments):
        """A fresh durable queue of the class's kind."""
        name = self.name("pika")
        self.queues.append(name)
        arguments = {"x-queue-type": self.kind, **arguments}
        self.channel.queue_declare(name, durable=True, arguments=arguments)
        return name

    def exchange(self, kind):
        """A fresh durable exchange."""
        name = self.name(kind)
        self.exchanges.append(name)
        self.channel.exchange_declare(name, kind, durable=True)
        return name

    def fill(self, queue, bodies):
        """Publishes bodies to a queue, each confirmed."""
        connection = pika.BlockingConnection(parameters())
        channel = connection.channel()
        channel.confirm_delivery()
        persistent = pika.BasicProperties(delivery_mode=2)
        for body in bodies:
            channel.basic_publish("", queue, body, persistent)
        connection.close()

    def ready(self, queue):
        """Messages ready in a queue."""
        return self.channel.queue_declare(queue, passive=True).method.message_count

    def take_all(self, queue):
        """The bodies of all messages ready, taken out."""
        bodies = []
        while True:
            method, _, body = self.channel.basic_get(queue, auto_ack=True)
            if method is None:
                return bodies
            bodies.append(body.decode())

    def deliveries(self, count):
        """The next deliveries of the consumers on the channel that `consume` started."""
        self.until(lambda: len(self.came) >= count, f"{count} deliveries")
        return self.came

    def consume(self, queue, **how):
        """Starts a consumer that collects its deliveries in `came`."""
        self.came = []

        def take(_channel, method, properties, body):
            self.came.append((method, properties, body.decode()))

        return self.channel.basic_consume(queue, take, **how)

    def until(self, condition, what):
        """Lets the connection work until the condition holds."""
        for _ in range(PATIENCE_S * 20):
            if condition():
                return
            self.connection.process_data_events(time_limit=0.05)
        self.fail(f"expected {what}; it did not come")

    def quiet(self):
        """Lets the connection work for a while in which nothing should come."""
        self.connection.process_data_events(time_limit=0.3)


def main():
    unittest.main(verbosity=2)
