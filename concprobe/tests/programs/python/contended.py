"""Four threads want one lock and hold it for two milliseconds each time, in which the interpreter is free."""

import sys
import threading
import time

lock = threading.Lock()


def take_and_hold(rounds: int) -> None:
    for _ in range(rounds):
        with lock:
            time.sleep(0.002)
        # Who has just had it would else have it again, and never wait.
        time.sleep(0.0002)


rounds = int(sys.argv[1])
threads = [threading.Thread(target=take_and_hold, args=(rounds,)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
