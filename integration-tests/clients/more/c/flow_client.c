/* Overfull queues, alarms and rabbitmq-c: whoever publishes is slowed down, nobody loses a
 * connection, a channel or a consumer. The client has one thread and no confirms of its own: what
 * it publishes and what it takes are done by turns, and confirms are read as frames. */
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CAPACITY 20
#define PREFETCH 10
#define PATIENCE_S 60
#define PUBLISHER 1
#define CONSUMER 2

static void fail(const char *what) {
  fprintf(stderr, "rabbitmq-c: %s\n", what);
  exit(1);
}

static void must(amqp_connection_state_t connection, const char *what) {
  if (amqp_get_rpc_reply(connection).reply_type != AMQP_RESPONSE_NORMAL) fail(what);
}

static const char *env(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value ? value : otherwise;
}

static amqp_connection_state_t open_connection(void) {
  amqp_connection_state_t connection = amqp_new_connection();
  amqp_socket_t *socket = amqp_tcp_socket_new(connection);
  if (amqp_socket_open(socket, env("AMQP_HOST", "127.0.0.1"), atoi(env("AMQP_PORT", "5672"))))
    fail("no connection");
  amqp_rpc_reply_t reply = amqp_login(connection, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest");
  if (reply.reply_type != AMQP_RESPONSE_NORMAL) fail("no login");
  return connection;
}

static void open_channel(amqp_connection_state_t connection, amqp_channel_t channel) {
  amqp_channel_open(connection, channel);
  must(connection, "no channel");
}

/* Takes what came within a moment. Answers 1 for a message that was new. */
static int listen_once(amqp_connection_state_t connection, char *seen, int messages, int *confirmed) {
  struct timeval moment = {0, 2000};
  amqp_envelope_t envelope;
  amqp_maybe_release_buffers(connection);
  amqp_rpc_reply_t reply = amqp_consume_message(connection, &envelope, &moment, 0);
  if (reply.reply_type == AMQP_RESPONSE_NORMAL) {
    char body[16] = {0};
    memcpy(body, envelope.message.body.bytes, envelope.message.body.len < 15 ? envelope.message.body.len : 15);
    int number = atoi(body), is_new = number < messages && !seen[number];
    seen[number] = 1;
    amqp_basic_ack(connection, CONSUMER, envelope.delivery_tag, 0);
    amqp_destroy_envelope(&envelope);
    return is_new;
  }
  if (reply.reply_type != AMQP_RESPONSE_LIBRARY_EXCEPTION) fail("the connection or a channel is lost");
  if (reply.library_error == AMQP_STATUS_TIMEOUT) return 0;
  if (reply.library_error != AMQP_STATUS_UNEXPECTED_STATE) fail("the connection is lost");
  amqp_frame_t frame;
  if (amqp_simple_wait_frame_noblock(connection, &frame, &moment) != AMQP_STATUS_OK) return 0;
  if (frame.frame_type != AMQP_FRAME_METHOD) fail("a frame out of turn");
  switch (frame.payload.method.id) {
    case AMQP_BASIC_ACK_METHOD: {
      amqp_basic_ack_t *ack = frame.payload.method.decoded;
      if ((int)ack->delivery_tag > *confirmed || !ack->multiple) *confirmed = (int)ack->delivery_tag;
      return 0;
    }
    case AMQP_BASIC_NACK_METHOD:
      fail("a message was nacked");
      return 0;
    default:
      fail("a method that nobody asked for");
      return 0;
  }
}

static void story(int confirm, int shared) {
  int messages = atoi(env("MESSAGES", "300")), count = 0, confirmed = 0;
  char *seen = calloc(messages, 1), name[64];
  snprintf(name, sizeof name, "flow.c.%d.%d", confirm, shared);
  amqp_bytes_t queue = amqp_cstring_bytes(name);
  amqp_connection_state_t connection = open_connection();
  amqp_connection_state_t other = shared ? connection : open_connection();
  open_channel(connection, PUBLISHER);
  open_channel(other, CONSUMER);
  amqp_table_entry_t entries[3];
  entries[0].key = amqp_cstring_bytes("x-queue-type");
  entries[0].value.kind = AMQP_FIELD_KIND_UTF8;
  entries[0].value.value.bytes = amqp_cstring_bytes("quorum");
  entries[1].key = amqp_cstring_bytes("x-capacity-messages");
  entries[1].value.kind = AMQP_FIELD_KIND_I32;
  entries[1].value.value.i32 = CAPACITY;
  entries[2].key = amqp_cstring_bytes("x-flow-resume-messages");
  entries[2].value.kind = AMQP_FIELD_KIND_I32;
  entries[2].value.value.i32 = CAPACITY / 2;
  amqp_table_t arguments = {3, entries};
  amqp_queue_declare(connection, PUBLISHER, queue, 0, 1, 0, 0, arguments);
  must(connection, "no queue");
  if (confirm) {
    amqp_confirm_select(connection, PUBLISHER);
    must(connection, "no confirms");
  }
  amqp_basic_qos(other, CONSUMER, 0, PREFETCH, 0);
  must(other, "no prefetch");
  amqp_basic_consume(other, CONSUMER, queue, amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
  must(other, "no consumer");
  time_t deadline = time(NULL) + PATIENCE_S;
  for (int number = 0; number < messages; number++) {
    char body[16];
    snprintf(body, sizeof body, "%d", number);
    if (amqp_basic_publish(connection, PUBLISHER, amqp_empty_bytes, queue, 0, 0, NULL, amqp_cstring_bytes(body)))
      fail("a publish failed");
    if (number % PREFETCH == 0) count += listen_once(other, seen, messages, &confirmed);
  }
  while (count < messages && time(NULL) < deadline) {
    count += listen_once(other, seen, messages, &confirmed);
    if (!shared && confirm) listen_once(connection, seen, messages, &confirmed);
  }
  while (confirm && confirmed < messages && time(NULL) < deadline)
    listen_once(connection, seen, messages, &confirmed);
  if (count < messages) {
    fprintf(stderr, "%d of %d came\n", count, messages);
    exit(1);
  }
  if (confirm && confirmed < messages) fail("confirms are missing");
  amqp_queue_delete(connection, PUBLISHER, queue, 0, 0);
  must(connection, "the channel is lost");
  amqp_connection_close(connection, AMQP_REPLY_SUCCESS);
  if (!shared) amqp_connection_close(other, AMQP_REPLY_SUCCESS);
  free(seen);
  printf("rabbitmq-c: confirm %d, shared %d: as it should be\n", confirm, shared);
}

int main(void) {
  for (int confirm = 1; confirm >= 0; confirm--)
    for (int shared = 1; shared >= 0; shared--) story(confirm, shared);
  return 0;
}
