// Command goguest is a guest of Go's own compiler: it copies its input, with the number of its lines.
package main

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		os.Exit(9)
	}
	var group sync.WaitGroup
	group.Go(func() { time.Sleep(time.Millisecond) }) // a goroutine that sleeps while another reads
	lines := bufio.NewScanner(os.Stdin)
	n := 0
	for lines.Scan() {
		n++
		fmt.Println(lines.Text())
	}
	group.Wait()
	fmt.Println(n)
}
