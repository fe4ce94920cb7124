//! A producer has something for a consumer every two milliseconds, through a channel.

use std::{
    sync::mpsc::{Receiver, sync_channel},
    thread,
    time::Duration,
};

#[inline(never)]
fn consume(receiver: &Receiver<u64>) -> u64 {
    receiver.iter().sum()
}

fn main() {
    let messages: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let (sender, receiver) = sync_channel(16);
    let consumer = thread::Builder::new().name("consumer".to_owned());
    let consumer = consumer.spawn(move || consume(&receiver)).unwrap();
    for message in 0..messages {
        thread::sleep(Duration::from_millis(2));
        sender.send(message).unwrap();
    }
    drop(sender);
    println!("{}", consumer.join().unwrap());
}
