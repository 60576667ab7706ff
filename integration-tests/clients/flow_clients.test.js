// Overfull queues and the Node clients: whoever publishes is slowed down, nobody loses a
// connection, a channel or a consumer.
'use strict'

const assert = require('node:assert')
const { randomUUID } = require('node:crypto')
const { test } = require('node:test')
const amqplib = require('amqplib')
const { AMQPClient } = require('@cloudamqp/amqp-client')

const HOST = process.env.AMQP_HOST || '127.0.0.1'
const PORT = process.env.AMQP_PORT || '5672'
const URL = `amqp://guest:guest@${HOST}:${PORT}`
// Messages of a story, and the capacity of its queue.
const MESSAGES = Number(process.env.MESSAGES || 300)
const CAPACITY = 20
const PREFETCH = 10
const PATIENCE_MS = 40_000

const ARGUMENTS = {
  'x-queue-type': 'quorum',
  'x-capacity-messages': CAPACITY,
  'x-flow-resume-messages': CAPACITY / 2
}

// A queue that is deleted after the story.
async function withQueue (story) {
  const queue = `flow.${randomUUID()}`
  const control = await amqplib.connect(URL)
  const channel = await control.createChannel()
  await channel.assertQueue(queue, { durable: true, arguments: ARGUMENTS })
  try {
    await story(queue)
  } finally {
    await channel.deleteQueue(queue)
    await control.close()
  }
}

function whole (bodies) {
  const numbers = bodies.map(Number).sort((a, b) => a - b)
  assert.deepStrictEqual(numbers, Array.from({ length: MESSAGES }, (_, number) => number))
}

// Answers every body of the queue, taken on this channel.
async function consume (channel, queue) {
  await channel.prefetch(PREFETCH)
  const bodies = []
  const { promise, resolve } = Promise.withResolvers?.() ?? withResolvers()
  await channel.consume(queue, (message) => {
    bodies.push(message.content.toString())
    channel.ack(message)
    if (bodies.length === MESSAGES) resolve(bodies)
  })
  return { all: promise }
}

function withResolvers () {
  const parts = {}
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }))
  return parts
}

function ended (emitter) {
  return new Promise((resolve, reject) => {
    emitter.on('error', reject)
    emitter.on('close', () => reject(new Error('it was closed')))
  })
}

async function amqplibStory (confirm, shared) {
  await withQueue(async (queue) => {
    const connection = await amqplib.connect(URL)
    const publisher = confirm
      ? await connection.createConfirmChannel()
      : await connection.createChannel()
    const other = shared ? connection : await amqplib.connect(URL)
    const consumer = await other.createChannel()
    const losses = [connection, publisher, consumer].map(ended)
    const lost = Promise.race(losses)
    lost.catch(() => {})
    losses.forEach((loss) => loss.catch(() => {}))
    const { all } = await consume(consumer, queue)
    for (let number = 0; number < MESSAGES; number++) {
      publisher.sendToQueue(queue, Buffer.from(String(number)))
    }
    whole(await Promise.race([all, lost]))
    if (confirm) await Promise.race([publisher.waitForConfirms(), lost])
    // A call that is answered shows that the channels are sound.
    await publisher.checkQueue(queue)
    await consumer.checkQueue(queue)
    await connection.close()
    if (!shared) await other.close()
  })
}

// This client rejects what is published while it is blocked.
async function unblocked (connection) {
  while (connection.blocked) await new Promise((resolve) => setTimeout(resolve, 10))
}

async function amqpClientStory (confirm, shared) {
  await withQueue(async (queue) => {
    const client = new AMQPClient(URL)
    const connection = await client.connect()
    const publisher = await connection.channel()
    if (confirm) await publisher.confirmSelect()
    const other = shared ? connection : await new AMQPClient(URL).connect()
    const consumer = await other.channel()
    await consumer.prefetch(PREFETCH)
    const bodies = []
    const { promise, resolve } = withResolvers()
    await consumer.basicConsume(queue, { noAck: false }, async (message) => {
      bodies.push(message.bodyString())
      await message.ack()
      if (bodies.length === MESSAGES) resolve(bodies)
    })
    const publishes = []
    for (let number = 0; number < MESSAGES; number++) {
      await unblocked(connection)
      publishes.push(publisher.basicPublish('', queue, String(number)))
    }
    whole(await promise)
    await Promise.all(publishes)
    assert.ok(!connection.closed && !publisher.closed && !consumer.closed)
    await connection.close()
    if (!shared) await other.close()
  })
}

for (const [library, story] of [['amqplib', amqplibStory], ['amqp-client.js', amqpClientStory]]) {
  for (const confirm of [true, false]) {
    for (const shared of [true, false]) {
      const how = `${confirm ? 'confirms' : 'plain'}, ${shared ? 'shared' : 'own'} connection`
      test(`${library}: ${how}`, { timeout: PATIENCE_MS }, () => story(confirm, shared))
    }
  }
}
