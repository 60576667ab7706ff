<?php
// Overfull queues, alarms and php-amqplib: whoever publishes is slowed down, nobody loses a
// connection, a channel or a consumer. While it is blocked this client throws instead of publishing.

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPConnectionBlockedException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

require getenv('AUTOLOAD');

const CAPACITY = 20;
const PREFETCH = 10;
const PATIENCE_S = 60;

function connect(): AMQPStreamConnection
{
    return new AMQPStreamConnection(
        getenv('AMQP_HOST') ?: '127.0.0.1', getenv('AMQP_PORT') ?: '5672', 'guest', 'guest'
    );
}

// Handles what came on a connection, without waiting for more than a moment.
function listen($channel): void
{
    try {
        $channel->wait(null, false, 0.01);
    } catch (PhpAmqpLib\Exception\AMQPTimeoutException $nothing) {
    }
}

function story(bool $confirm, bool $shared): void
{
    $messages = (int) (getenv('MESSAGES') ?: '300');
    $connection = connect();
    $other = $shared ? $connection : connect();
    $publisher = $connection->channel();
    $consumer = $other->channel();
    $queue = 'flow.php.' . json_encode($confirm) . '.' . json_encode($shared);
    $publisher->queue_declare($queue, false, true, false, false, false, new AMQPTable([
        'x-queue-type' => 'quorum',
        'x-capacity-messages' => CAPACITY,
        'x-flow-resume-messages' => CAPACITY / 2,
    ]));
    if ($confirm) {
        $publisher->set_nack_handler(function () {
            throw new Exception('a message was nacked');
        });
        $publisher->confirm_select();
    }
    $seen = [];
    $consumer->basic_qos(0, PREFETCH, false);
    $consumer->basic_consume($queue, '', false, false, false, false, function ($message) use (&$seen) {
        $seen[$message->getBody()] = true;
        $message->ack();
    });
    $deadline = time() + PATIENCE_S;
    for ($number = 0; $number < $messages;) {
        try {
            $publisher->basic_publish(new AMQPMessage((string) $number), '', $queue);
            $number++;
        } catch (AMQPConnectionBlockedException $blocked) {
            listen($publisher);
        }
        if ($number % PREFETCH == 0) {
            listen($consumer);
        }
        if (time() > $deadline) {
            throw new Exception("$number messages were published in time");
        }
    }
    while (count($seen) < $messages && time() < $deadline) {
        listen($consumer);
    }
    if (count($seen) < $messages) {
        throw new Exception(count($seen) . " of $messages came");
    }
    if ($confirm) {
        $publisher->wait_for_pending_acks(PATIENCE_S);
    }
    $publisher->queue_delete($queue);
    if (!$connection->isConnected() || !$other->isConnected()) {
        throw new Exception('a connection was lost');
    }
    $connection->close();
    if (!$shared) {
        $other->close();
    }
}

foreach ([true, false] as $confirm) {
    foreach ([true, false] as $shared) {
        story($confirm, $shared);
        echo 'php-amqplib: confirm ', json_encode($confirm), ', shared ', json_encode($shared),
            ": as it should be\n";
    }
}
