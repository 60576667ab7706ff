import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Overfull queues, alarms and the Java client, which obeys channel.flow: whoever publishes is
 * slowed down, nobody loses a connection, a channel or a consumer.
 */
public class FlowClient {
  static final int CAPACITY = 20;
  static final int PREFETCH = 10;
  static final int PATIENCE_S = 60;
  static final int MESSAGES = Integer.parseInt(env("MESSAGES", "300"));

  static String env(String name, String otherwise) {
    String value = System.getenv(name);
    return value == null ? otherwise : value;
  }

  static Connection connect() throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setHost(env("AMQP_HOST", "127.0.0.1"));
    factory.setPort(Integer.parseInt(env("AMQP_PORT", "5672")));
    factory.setAutomaticRecoveryEnabled(false);
    return factory.newConnection();
  }

  static void story(boolean confirm, boolean shared) throws Exception {
    Connection connection = connect();
    Connection other = shared ? connection : connect();
    Channel publisher = connection.createChannel();
    Channel consumer = other.createChannel();
    String queue = "flow.java." + confirm + "." + shared;
    publisher.queueDeclare(queue, true, false, false,
        Map.of("x-queue-type", "quorum", "x-capacity-messages", CAPACITY,
            "x-flow-resume-messages", CAPACITY / 2));
    if (confirm) publisher.confirmSelect();
    Set<String> seen = ConcurrentHashMap.newKeySet();
    CountDownLatch left = new CountDownLatch(MESSAGES);
    AtomicLong last = new AtomicLong();
    AtomicLong longest = new AtomicLong();
    consumer.basicQos(PREFETCH);
    consumer.basicConsume(queue, false, new DefaultConsumer(consumer) {
      @Override
      public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties,
          byte[] body) throws java.io.IOException {
        long now = System.nanoTime();
        long before = last.getAndSet(now);
        if (before != 0) longest.accumulateAndGet(now - before, Math::max);
        if (seen.add(new String(body))) left.countDown();
        consumer.basicAck(envelope.getDeliveryTag(), false);
      }
    });
    for (int number = 0; number < MESSAGES; number++) {
      publisher.basicPublish("", queue, null, Integer.toString(number).getBytes());
    }
    if (confirm) publisher.waitForConfirmsOrDie(PATIENCE_S * 1000L);
    if (!left.await(PATIENCE_S, TimeUnit.SECONDS)) {
      throw new IllegalStateException(seen.size() + " of " + MESSAGES + " messages came");
    }
    long gap = longest.get() / 1_000_000;
    System.out.println("longest time without a message: " + gap + " ms");
    if (gap > Long.parseLong(env("GAP_MAX_MS", "3600000"))) {
      throw new IllegalStateException("nothing came for " + gap + " ms");
    }
    publisher.queueDelete(queue);
    if (!connection.isOpen() || !other.isOpen() || !publisher.isOpen() || !consumer.isOpen()) {
      throw new IllegalStateException("a connection or a channel was lost");
    }
    connection.close();
    if (!shared) other.close();
  }

  public static void main(String[] arguments) throws Exception {
    for (boolean confirm : new boolean[] {true, false}) {
      for (boolean shared : new boolean[] {true, false}) {
        story(confirm, shared);
        System.out.printf("Java: confirm %s, shared %s: as it should be%n", confirm, shared);
      }
    }
    System.exit(0);
  }
}
