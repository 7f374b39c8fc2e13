// Writes a record each 100 ms until it is ended; franz-go pushes its own metrics meanwhile.
package main

import (
	"context"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]), kgo.ClientID("franz-1"), kgo.AllowAutoTopicCreation())
	if err != nil {
		panic(err)
	}
	for {
		record := &kgo.Record{Topic: os.Args[2], Value: []byte("x")}
		if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
			panic(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
