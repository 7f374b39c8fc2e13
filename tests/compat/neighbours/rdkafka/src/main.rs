//! Writes 100 records and reads them back in a group: of-rust BOOTSTRAP TOPIC

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let (bootstrap, topic) = (&words[1], &words[2]);
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", bootstrap).set("enable.idempotence", "true");
    let producer: ThreadedProducer<DefaultProducerContext> = settings.create().expect("a producer");
    for n in 0..100 {
        let value = n.to_string();
        producer.send(BaseRecord::<str, str>::to(topic).payload(&value)).expect("room in the queue");
    }
    producer.flush(Duration::from_secs(30)).expect("all records are acknowledged");

    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "rust")
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .create()
        .expect("a consumer");
    consumer.subscribe(&[topic]).expect("a subscription");
    let mut seen = HashSet::new();
    let began = Instant::now();
    while seen.len() < 100 {
        assert!(began.elapsed() < Duration::from_secs(60), "{} records of 100", seen.len());
        // a rebalance ends the poll, too, without a record
        if let Some(message) = consumer.poll(Duration::from_secs(1)) {
            seen.insert(message.expect("no error").payload().expect("a value").to_vec());
        }
    }
    consumer.commit_consumer_state(CommitMode::Sync).expect("a commit");
}
