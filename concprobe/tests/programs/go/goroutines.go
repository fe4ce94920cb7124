// Thousands of goroutines want one mutex, and compute while they hold it. Then the thread itself sleeps, in a call.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
)

var sum uint64

func compute(steps int) {
	for step := 0; step < steps; step++ {
		sum = sum*31 + uint64(step)
	}
}

//go:noinline
func rest() {
	limit := syscall.Timeval{Usec: 20000}
	syscall.Select(0, nil, nil, nil, &limit)
}

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	var lock sync.Mutex
	var group sync.WaitGroup
	for member := 0; member < 4000; member++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for round := 0; round < rounds; round++ {
				lock.Lock()
				compute(2000)
				lock.Unlock()
			}
		}()
	}
	group.Wait()
	rest()
	fmt.Println(sum)
}
