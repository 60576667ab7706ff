# Overfull queues, alarms and Bunny: whoever publishes is slowed down, nobody loses a connection, a
# channel or a consumer.
require 'bunny'

CAPACITY = 20
PREFETCH = 10
PATIENCE_S = 60
MESSAGES = Integer(ENV.fetch('MESSAGES', '300'))

def connect
  host = ENV.fetch('AMQP_HOST', '127.0.0.1')
  port = Integer(ENV.fetch('AMQP_PORT', '5672'))
  Bunny.new(host: host, port: port, automatically_recover: false).start
end

def story(confirm, shared)
  connection = connect
  other = shared ? connection : connect
  publisher = connection.create_channel
  consumer = other.create_channel
  name = "flow.ruby.#{confirm}.#{shared}"
  arguments = { 'x-queue-type' => 'quorum', 'x-capacity-messages' => CAPACITY,
                'x-flow-resume-messages' => CAPACITY / 2 }
  queue = publisher.queue(name, durable: true, arguments: arguments)
  publisher.confirm_select if confirm
  consumer.prefetch(PREFETCH)
  seen = Queue.new
  taken = consumer.queue(name, durable: true, arguments: arguments)
  taken.subscribe(manual_ack: true) do |delivery, _, body|
    consumer.ack(delivery.delivery_tag)
    seen << Integer(body)
  end
  MESSAGES.times { |number| publisher.default_exchange.publish(number.to_s, routing_key: name) }
  raise 'a message was nacked' if confirm && !publisher.wait_for_confirms
  deadline = Time.now + PATIENCE_S
  sleep 0.01 while seen.size < MESSAGES && Time.now < deadline
  bodies = []
  bodies << seen.pop until seen.empty?
  raise "#{bodies.size} of #{MESSAGES} came" unless bodies.sort == (0...MESSAGES).to_a
  # A call that is answered shows that the reader lives.
  queue.delete
  raise 'a connection was lost' unless connection.open? && other.open? && publisher.open?
  connection.close
  other.close unless shared
end

[true, false].each do |confirm|
  [true, false].each do |shared|
    story(confirm, shared)
    puts "Bunny: confirm #{confirm}, shared #{shared}: as it should be"
  end
end
