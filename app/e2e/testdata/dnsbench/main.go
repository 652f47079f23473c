// SPDX-License-Identifier: Apache-2.0

// Command dnsbench plans and writes many zones for a benchmark: with tenantry's packages, or with a
// bare client that sends the same DNS queries and API calls.
//
// Its arguments are a mode and the path of an input file. It prints figures as JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/dns"
)

// input is the content of the input file: the servers and the wanted records.
type input struct {
	Resolver string
	Port     int
	API, Key string
	Plugins  string // the folder with the plugin catalog
	Domains  []wanted
}

type wanted struct {
	Domain string
	Offer  dns.Offer
}

// figures is the output of a run.
type figures struct {
	Seconds  float64
	PeakMB   float64 // of this process
	PluginMB float64 // of the plugin process
}

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(mode, file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var in input
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	work := map[string]func(context.Context, input) (figures, error){
		"plan": plan, "apply": apply, "bare-plan": barePlan, "bare-apply": bareApply,
	}[mode]
	if work == nil {
		return errors.New("no such mode")
	}
	f, err := work(context.Background(), in)
	if err != nil {
		return err
	}
	f.PeakMB = peak("self")
	return json.NewEncoder(os.Stdout).Encode(f)
}

// each calls do for every domain in several workers. It returns the total duration in seconds, and
// the first error of each worker.
func each(domains []wanted, workers int, do func(i int, w wanted) error) (float64, error) {
	began := time.Now()
	work := make(chan int)
	failed := make([]error, workers)
	var all sync.WaitGroup
	for n := range workers {
		all.Go(func() {
			for i := range work {
				if err := do(i, domains[i]); err != nil && failed[n] == nil {
					failed[n] = fmt.Errorf("%s: %w", domains[i].Domain, err)
				}
			}
		})
	}
	for i := range domains {
		work <- i
	}
	close(work)
	all.Wait()
	return time.Since(began).Seconds(), errors.Join(failed...)
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak returns the largest resident memory that a process had, in megabytes, or 0 if it is unknown.
func peak(pid string) float64 {
	raw, err := os.ReadFile("/proc/" + pid + "/status")
	found := highWater.FindSubmatch(raw)
	if err != nil || found == nil {
		return 0
	}
	kilobytes, _ := strconv.Atoi(string(found[1]))
	return float64(kilobytes) / 1000
}
