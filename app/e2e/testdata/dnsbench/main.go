// SPDX-License-Identifier: Apache-2.0

// Command dnsbench plans or writes the DNS records of many domains for a benchmark: with tenantry's
// packages, or with a bare client that sends the same DNS queries and API calls.
//
// Its arguments are a mode (plan, apply, bare-plan or bare-apply) and the path of an input file. It
// prints figures as JSON.
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

// input is the content of the input file: the servers, the plugins and the wanted records.
type input struct {
	Resolver string // the address of the recursive resolver
	Port     int    // of the authoritative servers
	API, Key string // the URL of the DNS provider's API and the API key
	Plugins  string // the folder with the plugin catalog
	Domains  []domainOffer
}

// domainOffer is a domain, and the records that the mail platform asks for.
type domainOffer struct {
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
		return fmt.Errorf("there is no mode %q", mode)
	}
	f, err := work(context.Background(), in)
	if err != nil {
		return err
	}
	f.PeakMB = peakMemory("self")
	return json.NewEncoder(os.Stdout).Encode(f)
}

// forEachDomain calls do for every domain in several workers. It returns the total duration in
// seconds, and the first error of each worker.
func forEachDomain(domains []domainOffer, workers int, do func(i int, w domainOffer) error) (float64, error) {
	start := time.Now()
	work := make(chan int)
	errs := make([]error, workers)
	var running sync.WaitGroup
	for n := range workers {
		running.Go(func() {
			for i := range work {
				if err := do(i, domains[i]); err != nil && errs[n] == nil {
					errs[n] = fmt.Errorf("%s: %w", domains[i].Domain, err)
				}
			}
		})
	}
	for i := range domains {
		work <- i
	}
	close(work)
	running.Wait()
	return time.Since(start).Seconds(), errors.Join(errs...)
}

var peakMemoryLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory returns the largest resident memory that a process had, in megabytes, or 0 if it is
// unknown.
func peakMemory(pid string) float64 {
	raw, err := os.ReadFile("/proc/" + pid + "/status")
	found := peakMemoryLine.FindSubmatch(raw)
	if err != nil || found == nil {
		return 0
	}
	kilobytes, _ := strconv.Atoi(string(found[1]))
	return float64(kilobytes) / 1000
}
