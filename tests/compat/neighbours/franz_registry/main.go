// Registers a JSON schema, writes a value with its id and reads one of another client:
// franz-registry URL VALUE (both values in hex)
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

type order struct {
	ID int64 `json:"id"`
}

const (
	subject = "go-value"
	text    = `{"title":"Order","type":"object","properties":{"id":{"type":"integer"}}}`
	other   = `{"title":"Order","type":"object","properties":{"id":{"type":"string"}}}`
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client, err := sr.NewClient(sr.URLs(os.Args[1]))
	check(err)
	schema := sr.Schema{Schema: text, Type: sr.TypeJSON}
	stored, err := client.CreateSchema(ctx, subject, schema)
	check(err)
	found, err := client.LookupSchema(ctx, subject, schema)
	check(err)
	if found.ID != stored.ID || found.Version != 1 {
		panic(fmt.Sprintf("version %d with id %d", found.Version, found.ID))
	}
	verdict, err := client.CheckCompatibility(ctx, subject, -1, sr.Schema{Schema: other, Type: sr.TypeJSON})
	check(err)
	if verdict.Is {
		panic("another type is compatible")
	}

	var serde sr.Serde
	serde.Register(stored.ID, order{}, sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal))
	written, err := serde.Encode(order{ID: 8})
	check(err)
	given, err := hex.DecodeString(os.Args[2])
	check(err)
	var read order
	check(serde.Decode(given, &read))
	fmt.Println(hex.EncodeToString(written), read.ID)

	for _, how := range []sr.DeleteHow{sr.SoftDelete, sr.HardDelete} {
		_, err = client.DeleteSubject(ctx, "go-key", how)
		check(err)
	}
}
