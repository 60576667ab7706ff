'use strict';
// amqplib: declaring, routing, publishing, consuming and settling.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { name, withQueue, fill, takeAll, until, KINDS } = require('./amqplib_scene');

// Starts a consumer that collects its messages.
async function collect(channel, queue, options) {
  const came = [];
  const { consumerTag } = await channel.consume(queue, (message) => came.push(message), options);
  return { came, consumerTag };
}

const bodies = (messages) => messages.map((message) => message.content.toString());
const quiet = () => new Promise((resolve) => setTimeout(resolve, 300));

for (const kind of KINDS) {
  const check = (what, body, more) => test(`${kind}: ${what}`, () => withQueue(kind, body, more));

  check('declare, purge and delete count messages', async ({ connection, channel, queue }) => {
    await fill(connection, queue, ['a', 'b']);
    assert.equal((await channel.checkQueue(queue)).messageCount, 2);
    assert.equal((await channel.purgeQueue(queue)).messageCount, 2);
    await fill(connection, queue, ['c']);
    assert.equal((await channel.deleteQueue(queue)).messageCount, 1);
  });

  for (const [type, binding, matching, other] of [
    ['direct', 'key', 'key', 'other'],
    ['topic', 'a.*.#', 'a.b.c', 'b.a'],
    ['fanout', '', 'any', undefined],
  ]) {
    check(`a ${type} exchange`, async ({ connection, channel, queue }) => {
      const exchange = name(type);
      await channel.assertExchange(exchange, type);
      await channel.bindQueue(queue, exchange, binding);
      const publisher = await connection.createConfirmChannel();
      publisher.publish(exchange, matching, Buffer.from('came'));
      if (other) publisher.publish(exchange, other, Buffer.from('lost'));
      await publisher.waitForConfirms();
      assert.deepEqual(await takeAll(channel, queue), ['came']);
      await channel.unbindQueue(queue, exchange, binding);
      await channel.deleteExchange(exchange);
    });
  }

  check('get, ack and the empty queue', async ({ connection, channel, queue }) => {
    await fill(connection, queue, ['a']);
    const message = await channel.get(queue);
    assert.equal(message.content.toString(), 'a');
    channel.ack(message);
    assert.equal(await channel.get(queue), false);
  });

  check('prefetch holds deliveries back', async ({ connection, channel, queue }) => {
    await fill(connection, queue, ['a', 'b', 'c', 'd']);
    await channel.prefetch(2);
    const { came } = await collect(channel, queue);
    await until(() => came.length === 2, 'two deliveries');
    await quiet();
    assert.equal(came.length, 2);
    channel.ack(came[1], true);
    await until(() => came.length === 4, 'four deliveries');
    assert.deepEqual(bodies(came), ['a', 'b', 'c', 'd']);
  });

  check('nack, reject and recover put messages back', async ({ connection, channel, queue }) => {
    await fill(connection, queue, ['a']);
    const { came } = await collect(channel, queue);
    await until(() => came.length === 1, 'a delivery');
    channel.nack(came[0]);
    await until(() => came.length === 2, 'a second delivery');
    channel.reject(came[1], true);
    await until(() => came.length === 3, 'a third delivery');
    await channel.recover();
    await until(() => came.length === 4, 'a fourth delivery');
    assert.deepEqual(came.map((message) => message.fields.redelivered), [false, true, true, true]);
  });

  check('reject without requeue discards', async ({ connection, channel, queue }) => {
    await fill(connection, queue, ['a', 'b']);
    channel.reject(await channel.get(queue), false);
    assert.deepEqual(await takeAll(channel, queue), ['b']);
  });

  check('a cancelled consumer gets nothing more', async ({ connection, channel, queue }) => {
    const { came, consumerTag } = await collect(channel, queue);
    await channel.cancel(consumerTag);
    await fill(connection, queue, ['a']);
    await quiet();
    assert.equal(came.length, 0);
  });

  check('a deleted queue cancels its consumer', async ({ connection, channel, queue }) => {
    const { came } = await collect(channel, queue);
    const other = await connection.createChannel();
    await other.deleteQueue(queue);
    await until(() => came.length === 1, 'a cancel');
    assert.equal(came[0], null);
  });

  check('large bodies come back as they went', async ({ connection, channel, queue }) => {
    for (const length of [0, 1, 4088, 4089, 1_000_000]) {
      const body = Buffer.alloc(length, 'x');
      const publisher = await connection.createConfirmChannel();
      publisher.sendToQueue(queue, body, { persistent: true });
      await publisher.waitForConfirms();
      const message = await channel.get(queue, { noAck: true });
      assert.ok(message.content.equals(body), `a body of ${length} octets has changed`);
    }
  });

  check('headers come back as they went', async ({ connection, channel, queue }) => {
    const headers = { text: 'ä', number: 5, list: [1, 'two'], table: { deep: true } };
    const publisher = await connection.createConfirmChannel();
    publisher.sendToQueue(queue, Buffer.from('body'), { headers, messageId: 'm', priority: 2 });
    await publisher.waitForConfirms();
    const { properties } = await channel.get(queue, { noAck: true });
    assert.deepEqual(properties.headers, headers);
    assert.equal(properties.messageId, 'm');
    assert.equal(properties.priority, 2);
  });

  check('a full queue refuses', async ({ connection, queue }) => {
    const publisher = await connection.createConfirmChannel();
    const refused = [];
    // A quorum queue may take a few beyond its limit before it refuses.
    for (let n = 0; n < 100; n += 1) {
      await new Promise((resolve) => {
        publisher.sendToQueue(queue, Buffer.from('x'), {}, (error) => {
          if (error) refused.push(error);
          resolve();
        });
      });
    }
    assert.ok(refused.length > 0, 'expected nacks');
  }, { 'x-max-length': 1, 'x-overflow': 'reject-publish' });
}

test('a mandatory message without a route is returned before its confirm', async () => {
  await withQueue('classic', async ({ connection }) => {
    const publisher = await connection.createConfirmChannel();
    const order = [];
    publisher.on('return', (message) => order.push(`returned ${message.content}`));
    publisher.publish('', name('nowhere'), Buffer.from('lost'), { mandatory: true }, () => {
      order.push('confirmed');
    });
    await publisher.waitForConfirms();
    assert.deepEqual(order, ['returned lost', 'confirmed']);
  });
});
