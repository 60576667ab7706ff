'use strict';
// What every amqplib script shares: where the broker is, names that nobody else uses, and waiting
// for what must come. Knows amqplib's promise API only.

const { randomUUID } = require('node:crypto');
const amqplib = require('amqplib');

const HOST = process.env.AMQP_HOST || '127.0.0.1';
const PORT = process.env.AMQP_PORT || '5672';
// How long a test waits for something that must come, milliseconds.
const PATIENCE_MS = 20_000;

function url(credentials = 'guest:guest', vhost = '%2f', query = '') {
  return `amqp://${credentials}@${HOST}:${PORT}/${vhost}${query}`;
}

function name(stem) {
  return `${stem}.${randomUUID().slice(0, 12)}`;
}

// Runs `body` with a connection, a channel and a durable queue of `kind`, and clears up after it.
async function withQueue(kind, body, more = {}) {
  const connection = await amqplib.connect(url());
  // Errors that a test provokes are seen by the test itself.
  connection.on('error', () => {});
  const channel = await connection.createChannel();
  channel.on('error', () => {});
  const queue = name('amqplib');
  const options = { durable: true, arguments: { 'x-queue-type': kind, ...more } };
  await channel.assertQueue(queue, options);
  try {
    await body({ connection, channel, queue });
  } finally {
    await connection.close().catch(() => {});
    const cleaner = await amqplib.connect(url());
    const deleting = await cleaner.createChannel();
    await deleting.deleteQueue(queue);
    await cleaner.close();
  }
}

// Publishes bodies to a queue, each confirmed.
async function fill(connection, queue, bodies) {
  const channel = await connection.createConfirmChannel();
  for (const body of bodies) channel.sendToQueue(queue, Buffer.from(body), { persistent: true });
  await channel.waitForConfirms();
  await channel.close();
}

// The bodies of all messages ready, taken out.
async function takeAll(channel, queue) {
  const bodies = [];
  for (;;) {
    const message = await channel.get(queue, { noAck: true });
    if (!message) return bodies;
    bodies.push(message.content.toString());
  }
}

// Waits until `look` gives something true.
async function until(look, what) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const came = await look();
    if (came) return came;
    if (Date.now() > end) throw new Error(`expected ${what}; it did not come`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

module.exports = { amqplib, url, name, withQueue, fill, takeAll, until, KINDS: ['classic', 'quorum'] };
