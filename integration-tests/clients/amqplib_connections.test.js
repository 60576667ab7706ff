'use strict';
// amqplib: handshake, heartbeats, clean and unclean ends.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { amqplib, url, name, withQueue, fill, until, KINDS } = require('./amqplib_scene');

test('a connection opens and closes', async () => {
  const connection = await amqplib.connect(url());
  assert.ok(connection.connection.serverProperties.capabilities.publisher_confirms);
  await connection.close();
});

test('AMQPLAIN lets guest in', async () => {
  const credentials = amqplib.credentials.amqplain('guest', 'guest');
  const connection = await amqplib.connect(url(), { credentials });
  await connection.close();
});

test('a wrong password is refused', async () => {
  await assert.rejects(amqplib.connect(url('guest:wrong')), /403|ACCESS_REFUSED|closed/i);
});

test('a missing vhost is refused', async () => {
  await assert.rejects(amqplib.connect(url('guest:guest', 'nowhere')), /530|NOT_ALLOWED|ConnectionClose|closed/i);
});

test('a channel error leaves the connection open', async () => {
  const connection = await amqplib.connect(url());
  const channel = await connection.createChannel();
  channel.on('error', () => {});
  await assert.rejects(channel.checkQueue(name('missing')), /404/);
  const other = await connection.createChannel();
  await other.prefetch(1);
  await connection.close();
});

test('heartbeats keep an idle connection', async () => {
  const connection = await amqplib.connect(url('guest:guest', '%2f', '?heartbeat=1'));
  let ended = false;
  connection.on('close', () => { ended = true; });
  connection.on('error', () => { ended = true; });
  await new Promise((resolve) => setTimeout(resolve, 4000));
  assert.equal(ended, false);
  await connection.close();
});

for (const kind of KINDS) {
  test(`${kind}: a socket that just ends gives messages back`, async () => {
    await withQueue(kind, async ({ connection, channel, queue }) => {
      await fill(connection, queue, ['held']);
      const unclean = await amqplib.connect(url());
      unclean.on('error', () => {});
      const message = await (await unclean.createChannel()).get(queue);
      assert.equal(message.content.toString(), 'held');
      unclean.connection.stream.destroy();
      const again = await until(() => channel.get(queue), 'the message to come back');
      assert.equal(again.fields.redelivered, true);
    });
  });
}
