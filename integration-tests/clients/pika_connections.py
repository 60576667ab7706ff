"""pika: handshake, heartbeats, clean and unclean ends."""

import os
import subprocess
import sys
import time

import pika
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    IncompatibleProtocolError,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from scene import Scene, main, parameters


class Connections(Scene):
    def test_a_connection_opens_and_closes(self):
        connection = pika.BlockingConnection(parameters())
        self.assertTrue(connection.is_open)
        connection.close()
        self.assertTrue(connection.is_closed)

    def test_the_broker_supports_what_pika_asks_for(self):
        self.assertTrue(self.connection.basic_nack_supported)
        self.assertTrue(self.connection.consumer_cancel_notify_supported)
        self.assertTrue(self.connection.exchange_exchange_bindings_supported)
        self.assertTrue(self.connection.publisher_confirms_supported)

    def test_a_wrong_password_is_an_authentication_error(self):
        with self.assertRaises(ProbableAuthenticationError):
            pika.BlockingConnection(parameters(password="wrong"))

    def test_a_missing_vhost_is_refused(self):
        refusals = (ProbableAccessDeniedError, ConnectionClosedByBroker, IncompatibleProtocolError)
        with self.assertRaises(refusals):
            pika.BlockingConnection(parameters(virtual_host="nowhere"))

    def test_many_channels_work_side_by_side(self):
        channels = [self.connection.channel() for _ in range(20)]
        queue = self.queue()
        for index, channel in enumerate(channels):
            channel.basic_publish("", queue, str(index))
        for channel in channels:
            channel.close()
        self.until(lambda: self.ready(queue) == 20, "20 messages")

    def test_a_channel_error_leaves_the_connection_open(self):
        with self.assertRaises(ChannelClosedByBroker) as refusal:
            self.channel.queue_declare(self.name("missing"), passive=True)
        self.assertEqual(refusal.exception.reply_code, 404)
        self.assertTrue(self.connection.is_open)
        self.channel = self.connection.channel()

    def test_a_connection_error_is_told(self):
        self.channel.basic_consume(self.queue(), lambda *came: None, consumer_tag="twice")
        with self.assertRaises(ConnectionClosedByBroker) as refusal:
            other = self.connection.channel()
            # A prefetch size is an error of the whole connection.
            other.basic_qos(prefetch_size=1)
        self.assertEqual(refusal.exception.reply_code, 540)

    def test_heartbeats_keep_an_idle_connection(self):
        connection = pika.BlockingConnection(parameters(heartbeat=1))
        end = time.monotonic() + 4
        while time.monotonic() < end:
            connection.process_data_events(time_limit=0.2)
        connection.channel().close()
        connection.close()

    def test_a_silent_connection_is_dropped_and_its_messages_come_back(self):
        queue = self.queue()
        self.fill(queue, ["held"])
        silent = pika.BlockingConnection(parameters(heartbeat=1))
        method, _, _ = silent.channel().basic_get(queue)
        self.assertFalse(method.redelivered)
        # The connection is not served, so that no heartbeat leaves.
        again = []

        def is_back():
            again[:] = [self.channel.basic_get(queue)]
            return again[0][0] is not None

        self.until(is_back, "the message to come back")
        self.assertTrue(again[0][0].redelivered)

    def test_a_client_that_dies_gives_its_messages_back(self):
        queue = self.queue()
        self.fill(queue, ["held"])
        # A process that ends with nothing said; the system closes its socket.
        script = (
            "import os, sys; from scene import *;"
            "channel = pika.BlockingConnection(parameters()).channel();"
            "method, _, _ = channel.basic_get(sys.argv[1]);"
            "os._exit(0 if method else 1)"
        )
        here = os.path.dirname(os.path.abspath(__file__))
        died = subprocess.run([sys.executable, "-c", script, queue], cwd=here, check=False)
        self.assertEqual(died.returncode, 0, "the dying client must have got the message")
        self.until(lambda: self.ready(queue) == 1, "the message to come back")
        self.assertTrue(self.channel.basic_get(queue)[0].redelivered)


if __name__ == "__main__":
    main()
