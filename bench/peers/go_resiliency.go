// go_resiliency - what weir's breaker is measured beside: go-resiliency's (Debian's package of it), doing the same work.
//
//	go_resiliency ROUNDS     prints "NAME NANOSECONDS" and "NAME_2_THREADS RATIO", as bench/decide does
//
// Measured as bench/timed.h says: short series in turn, of each the twentieth part from below; of two threads the lower
// quarter of the rounds in which both ran at once, against one thread in the same rounds.
//
// SPDX-License-Identifier: Apache-2.0
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"gopkg.in/eapache/go-resiliency.v1/breaker"
)

const (
	seriesLength      = 1000
	togetherFor       = 60 * time.Microsecond
	aloneQuantile     = 0.05
	togetherQuantile  = 0.25
	minOverlap        = 0.9
	minRounds         = 20
	neverTrips        = int(^uint(0) >> 1)
	openFor           = 1000000 * time.Second
	spinsBeforeGiveUp = 20000
	maskWords         = 16 // of a set of 1024 processors
)

var errFailed = errors.New("the call failed")

func succeed() error { return nil }
func fail() error    { return errFailed }

type operation struct {
	name string
	run  func(n int)
}

func operations() []operation {
	closed := breaker.New(neverTrips, 1, openFor)
	failing := breaker.New(neverTrips, 1, openFor)
	open := breaker.New(1, 1, openFor)
	_ = open.Run(fail)
	return []operation{
		{"peer.go_resiliency.admit_settle_without_clock", func(n int) {
			for i := 0; i < n; i++ {
				_ = closed.Run(succeed)
			}
		}},
		{"peer.go_resiliency.admit_fail", func(n int) {
			for i := 0; i < n; i++ {
				_ = failing.Run(fail)
			}
		}},
		{"peer.go_resiliency.refuse", func(n int) {
			for i := 0; i < n; i++ {
				if open.Run(succeed) == nil {
					panic("an open breaker lets a call through")
				}
			}
		}},
	}
}

func quantile(values []float64, part float64) float64 {
	sort.Float64s(values)
	return values[int(float64(len(values)-1)*part)]
}

func seriesNs(o operation, n int) float64 {
	startedAt := time.Now()
	o.run(n)
	return float64(time.Since(startedAt).Nanoseconds()) / float64(n)
}

func alone(all []operation, rounds int) {
	samples := make([][]float64, len(all))
	for round := 0; round < rounds; round++ {
		for i, o := range all {
			o.run(seriesLength)
			samples[i] = append(samples[i], seriesNs(o, seriesLength))
		}
	}
	for i, o := range all {
		fmt.Printf("%s %.2f\n", o.name, quantile(samples[i], aloneQuantile))
	}
}

type span struct{ from, until time.Time }

func spanOf(o operation, n int, ready *int32, both int32) span {
	atomic.AddInt32(ready, 1)
	for spins := 0; spins < spinsBeforeGiveUp && atomic.LoadInt32(ready) < both; spins++ {
	}
	from := time.Now()
	o.run(n)
	return span{from, time.Now()}
}

// The time of one operation in two series; negative: they did not run at once.
func togetherNs(n int, first, second span) float64 {
	from, until := first.from, second.until
	sharedFrom, sharedUntil := second.from, first.until
	if second.from.Before(first.from) {
		from, sharedFrom = second.from, first.from
	}
	if first.until.After(second.until) {
		until, sharedUntil = first.until, second.until
	}
	if float64(sharedUntil.Sub(sharedFrom)) < minOverlap*float64(until.Sub(from)) {
		return -1
	}
	sum := first.until.Sub(first.from) + second.until.Sub(second.from)
	return float64(sum.Nanoseconds()) / 2 / float64(n)
}

// The processors that this process may use.
func processors() []int {
	var set [maskWords]uint64
	_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set)))
	var found []int
	for i := 0; i < 64*maskWords; i++ {
		if set[i/64]>>(i%64)&1 == 1 {
			found = append(found, i)
		}
	}
	return found
}

// Binds the calling thread to one processor.
func pinTo(processor int) {
	runtime.LockOSThread()
	var set [maskWords]uint64
	set[processor/64] = 1 << (processor % 64)
	_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set)))
}

func waitUntil(value *int32, least int32) {
	for atomic.LoadInt32(value) < least {
		_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

func together(o operation, rounds int) {
	var ready, wanted, finished int32
	var second span
	places := processors()
	if len(places) < 2 {
		return
	}
	fastest := seriesNs(o, seriesLength)
	for i := 0; i < minRounds; i++ {
		if ns := seriesNs(o, seriesLength); ns < fastest {
			fastest = ns
		}
	}
	n := int(float64(togetherFor.Nanoseconds())/fastest) + 1
	pinTo(places[0])
	go func() {
		pinTo(places[1])
		for round := int32(1); round <= int32(rounds); round++ {
			waitUntil(&wanted, round)
			second = spanOf(o, n, &ready, 2*round)
			atomic.StoreInt32(&finished, round)
		}
	}()
	var one, two []float64
	for round := int32(1); round <= int32(rounds); round++ {
		o.run(n)
		one = append(one, seriesNs(o, n))
		atomic.StoreInt32(&wanted, round)
		first := spanOf(o, n, &ready, 2*round)
		waitUntil(&finished, round)
		if ns := togetherNs(n, first, second); ns >= 0 {
			two = append(two, ns)
		}
	}
	if len(two) >= minRounds {
		fmt.Printf("%s_2_threads %.3f\n", o.name, quantile(two, togetherQuantile)/quantile(one, togetherQuantile))
	}
}

func main() {
	rounds := 0
	if len(os.Args) == 2 {
		rounds, _ = strconv.Atoi(os.Args[1])
	}
	if rounds <= 0 {
		fmt.Fprintln(os.Stderr, "usage: go_resiliency ROUNDS")
		os.Exit(2)
	}
	runtime.LockOSThread()
	all := operations()
	alone(all, rounds)
	together(all[0], rounds)
}
