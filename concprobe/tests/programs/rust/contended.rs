//! Four threads want one mutex and hold it for two milliseconds each time.

use std::{sync::Mutex, thread, time::Duration};

static DATA: Mutex<u64> = Mutex::new(0);

#[inline(never)]
fn take_and_hold(rounds: u64) {
    for _ in 0..rounds {
        let mut data = DATA.lock().unwrap();
        *data += 1;
        thread::sleep(Duration::from_millis(2));
        drop(data);
        // Who has just had it would else have it again, and never wait.
        thread::sleep(Duration::from_micros(200));
    }
}

fn main() {
    let rounds: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    thread::scope(|scope| {
        for number in 0..4 {
            let name = format!("worker {number}");
            thread::Builder::new().name(name).spawn_scoped(scope, || take_and_hold(rounds)).unwrap();
        }
    });
    println!("{}", DATA.lock().unwrap());
}
