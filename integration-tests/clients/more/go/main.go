// Overfull queues, alarms and the Go client: whoever publishes is slowed down, nobody loses a
// connection, a channel or a consumer.
package main

import (
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	capacity = 20
	prefetch = 10
	patience = 60 * time.Second
)

func env(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

var (
	url         = fmt.Sprintf("amqp://guest:guest@%s:%s/", env("AMQP_HOST", "127.0.0.1"), env("AMQP_PORT", "5672"))
	messages, _ = strconv.Atoi(env("MESSAGES", "300"))
)

func must(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func connect() *amqp.Connection {
	connection, err := amqp.Dial(url)
	must(err)
	return connection
}

func open(connection *amqp.Connection) *amqp.Channel {
	channel, err := connection.Channel()
	must(err)
	return channel
}

func publish(channel *amqp.Channel, queue string, confirm bool) {
	confirms := []*amqp.DeferredConfirmation{}
	for number := 0; number < messages; number++ {
		body := amqp.Publishing{Body: []byte(strconv.Itoa(number))}
		deferred, err := channel.PublishWithDeferredConfirm("", queue, false, false, body)
		must(err)
		confirms = append(confirms, deferred)
	}
	if !confirm {
		return
	}
	for _, deferred := range confirms {
		if !deferred.Wait() {
			log.Panic("a message was nacked")
		}
	}
}

func consume(channel *amqp.Channel, queue string, done chan<- error) {
	must(channel.Qos(prefetch, 0, false))
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	must(err)
	seen := map[string]bool{}
	last, longest := time.Now(), time.Duration(0)
	for len(seen) < messages {
		select {
		case delivery, ok := <-deliveries:
			if !ok {
				done <- fmt.Errorf("the consumer has ended")
				return
			}
			if seen[string(delivery.Body)] {
				done <- fmt.Errorf("%s came twice", delivery.Body)
				return
			}
			seen[string(delivery.Body)] = true
			if gap := time.Since(last); gap > longest && len(seen) > 1 {
				longest = gap
			}
			last = time.Now()
			must(delivery.Ack(false))
		case <-time.After(patience):
			done <- fmt.Errorf("%d of %d messages came", len(seen), messages)
			return
		}
	}
	fmt.Printf("longest time without a message: %v\n", longest)
	if limit, err := strconv.Atoi(env("GAP_MAX_MS", "")); err == nil && longest > time.Duration(limit)*time.Millisecond {
		done <- fmt.Errorf("nothing came for %v", longest)
		return
	}
	done <- nil
}

func story(confirm, shared bool) {
	connection := connect()
	publisher := open(connection)
	queue := fmt.Sprintf("flow.go.%v.%v", confirm, shared)
	_, err := publisher.QueueDeclare(queue, true, false, false, false, amqp.Table{
		"x-queue-type": "quorum", "x-capacity-messages": capacity, "x-flow-resume-messages": capacity / 2,
	})
	must(err)
	if confirm {
		must(publisher.Confirm(false))
	}
	other := connection
	if !shared {
		other = connect()
	}
	done := make(chan error, 1)
	go consume(open(other), queue, done)
	publish(publisher, queue, confirm)
	must(<-done)
	_, err = publisher.QueueDelete(queue, false, false, false)
	must(err)
	if connection.IsClosed() || other.IsClosed() {
		log.Panic("a connection was lost")
	}
	must(connection.Close())
	if !shared {
		must(other.Close())
	}
}

func main() {
	for _, confirm := range []bool{true, false} {
		for _, shared := range []bool{true, false} {
			story(confirm, shared)
			fmt.Printf("amqp091-go: confirm %v, shared %v: as it should be\n", confirm, shared)
		}
	}
}
