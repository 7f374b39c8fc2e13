package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
)

// reader counts what a member of the group is given, and marks it.
type reader struct {
	seen map[string]bool
	done context.CancelFunc
}

func (*reader) Setup(sarama.ConsumerGroupSession) error { return nil }

func (*reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		r.seen[string(message.Value)] = true
		session.MarkMessage(message, "")
		if len(r.seen) == 100 {
			session.Commit()
			r.done()
		}
	}
	return nil
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	brokers, topic := []string{os.Args[1]}, os.Args[2]
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1
	config.Consumer.Offsets.Initial = sarama.OffsetOldest

	admin, err := sarama.NewClusterAdmin(brokers, config)
	check(err)
	check(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false))
	check(admin.Close())

	producer, err := sarama.NewSyncProducer(brokers, config)
	check(err)
	for n := 0; n < 100; n++ {
		message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(fmt.Sprint(n))}
		_, offset, err := producer.SendMessage(message)
		check(err)
		if offset != int64(n) {
			panic(fmt.Sprintf("record %d is at offset %d", n, offset))
		}
	}
	check(producer.Close())

	group, err := sarama.NewConsumerGroup(brokers, "sarama", config)
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	one := &reader{seen: map[string]bool{}, done: cancel}
	for ctx.Err() == nil {
		check(group.Consume(ctx, []string{topic}, one))
	}
	check(group.Close())
	if len(one.seen) != 100 {
		panic(fmt.Sprintf("%d records of 100", len(one.seen)))
	}
}
