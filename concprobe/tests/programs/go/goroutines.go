// Thousands of goroutines want one mutex, and compute while they hold it.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

var sum uint64

func compute(steps int) {
	for step := 0; step < steps; step++ {
		sum = sum*31 + uint64(step)
	}
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
	fmt.Println(sum)
}
