"""Four threads that only compute: one at a time may, by the interpreter's lock."""

import sys
import threading


def compute(rounds: int) -> int:
    total = 0
    for number in range(rounds):
        total += number & 7
    return total


rounds = int(sys.argv[1])
threads = [threading.Thread(target=compute, args=(rounds,)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
