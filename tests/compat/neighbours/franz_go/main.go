package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	topic := os.Args[2]
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]), kgo.ConsumerGroup("franz"), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AllowAutoTopicCreation())
	if err != nil {
		panic(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for n := 0; n < 100; n++ {
		client.Produce(ctx, &kgo.Record{Topic: topic, Value: []byte(fmt.Sprint(n))}, nil)
	}
	if err := client.Flush(ctx); err != nil {
		panic(err)
	}
	for seen := 0; seen < 100; {
		fetches := client.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 {
			panic(errs[0].Err)
		}
		fetches.EachRecord(func(r *kgo.Record) { seen++ })
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		panic(err)
	}
}
