// Makes, lists or deletes ACLs: PROGRAM BOOTSTRAP create|describe|delete ROWS
// A row: resource type, name, pattern type, principal, host, operation, permission
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

type row [7]any

func number(value any) int8 {
	return int8(value.(float64))
}

func text(value any) string {
	found, _ := value.(string) // kafka-go sends null for an empty text
	return found
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	var rows []row
	must(json.Unmarshal([]byte(os.Args[3]), &rows))
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client := &kafka.Client{Addr: kafka.TCP(os.Args[1])}
	found := []row{}
	switch os.Args[2] {
	case "create":
		create(ctx, client, rows)
	case "describe":
		found = describe(ctx, client, rows[0])
	default:
		found = remove(ctx, client, rows[0])
	}
	printed, err := json.Marshal(found)
	must(err)
	fmt.Println(string(printed))
}

func create(ctx context.Context, client *kafka.Client, rows []row) {
	var entries []kafka.ACLEntry
	for _, r := range rows {
		entries = append(entries, kafka.ACLEntry{
			ResourceType: kafka.ResourceType(number(r[0])), ResourceName: text(r[1]),
			ResourcePatternType: kafka.PatternType(number(r[2])), Principal: text(r[3]), Host: text(r[4]),
			Operation: kafka.ACLOperationType(number(r[5])), PermissionType: kafka.ACLPermissionType(number(r[6])),
		})
	}
	answer, err := client.CreateACLs(ctx, &kafka.CreateACLsRequest{ACLs: entries})
	must(err)
	for _, failed := range answer.Errors {
		must(failed)
	}
}

func describe(ctx context.Context, client *kafka.Client, r row) []row {
	answer, err := client.DescribeACLs(ctx, &kafka.DescribeACLsRequest{Filter: kafka.ACLFilter{
		ResourceTypeFilter: kafka.ResourceType(number(r[0])), ResourceNameFilter: text(r[1]),
		ResourcePatternTypeFilter: kafka.PatternType(number(r[2])), PrincipalFilter: text(r[3]), HostFilter: text(r[4]),
		Operation: kafka.ACLOperationType(number(r[5])), PermissionType: kafka.ACLPermissionType(number(r[6])),
	}})
	must(err)
	must(answer.Error)
	found := []row{}
	for _, one := range answer.Resources {
		for _, acl := range one.ACLs {
			found = append(found, row{int(one.ResourceType), one.ResourceName, int(one.PatternType), acl.Principal, acl.Host,
				int(acl.Operation), int(acl.PermissionType)})
		}
	}
	return found
}

func remove(ctx context.Context, client *kafka.Client, r row) []row {
	answer, err := client.DeleteACLs(ctx, &kafka.DeleteACLsRequest{Filters: []kafka.DeleteACLsFilter{{
		ResourceTypeFilter: kafka.ResourceType(number(r[0])), ResourceNameFilter: text(r[1]),
		ResourcePatternTypeFilter: kafka.PatternType(number(r[2])), PrincipalFilter: text(r[3]), HostFilter: text(r[4]),
		Operation: kafka.ACLOperationType(number(r[5])), PermissionType: kafka.ACLPermissionType(number(r[6])),
	}}})
	must(err)
	found := []row{}
	for _, one := range answer.Results {
		must(one.Error)
		for _, acl := range one.MatchingACLs {
			must(acl.Error)
			found = append(found, row{int(acl.ResourceType), acl.ResourceName, int(acl.ResourcePatternType), acl.Principal,
				acl.Host, int(acl.Operation), int(acl.PermissionType)})
		}
	}
	return found
}
