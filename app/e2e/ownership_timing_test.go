// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// timedOperation is an operation, and the path parameter in which the requests differ.
type timedOperation struct {
	op    operation
	param string
}

var timedOperations = []timedOperation{
	{operation{"GET", "/v1/tenants/{tenant_id}"}, "tenant_id"},
	{operation{"GET", "/v1/tenants/{tenant_id}/domains/{domain_name}/dns"}, "domain_name"},
	{operation{"GET", "/v1/domains/{domain_id}/dns"}, "domain_id"},
	{operation{"GET", "/v1/tenants/{tenant_id}/mailboxes/{mailbox_id}/usage"}, "mailbox_id"},
	{operation{"POST", "/v1/tenants/{tenant_id}/domains"}, "tenant_id"},
}

// timedRounds is the number of durations that one measurement of a soak collects for each kind of
// value.
const timedRounds = 20_000

// timedValues returns values of a parameter, keyed by their kind. Requests with values of different
// kinds must take the same time. The values have the same length, because the length can affect the
// time.
func timedValues(param, foreignID string) map[string]string {
	if param == "domain_name" {
		n := len(foreignID)
		return map[string]string{"foreign": foreignID, "unknown": strings.Repeat("u", n-5) + ".test", "malformed": strings.Repeat("m", n-6) + "-.test"}
	}
	return map[string]string{"foreign": foreignID, "unknown": noSuchID, "malformed": "0e9d7c1a-4b52-4f60-8a3e-9d2f1c7b6axx"}
}

// stopwatch sends requests over one connection and measures them.
type stopwatch struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
	host   string
}

func newStopwatch(t *testing.T, apiURL string) *stopwatch {
	t.Helper()
	host := strings.TrimPrefix(apiURL, "http://")
	conn, err := net.Dial("tcp", host)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &stopwatch{t, conn, bufio.NewReader(conn), host}
}

// measure sends a request and returns the duration until the end of the response, and its status.
func (s *stopwatch) measure(method, path, key string, body any) (time.Duration, int) {
	s.t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n", method, path, s.host, key)
	if method == http.MethodGet {
		text.WriteString("\r\n")
	} else {
		payload, err := json.Marshal(body)
		must(s.t, err)
		fmt.Fprintf(&text, "Idempotency-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", rand.Text(), len(payload), payload)
	}
	request := []byte(text.String())
	_ = s.conn.SetDeadline(time.Now().Add(waitTimeout))
	start := time.Now()
	if _, err := s.conn.Write(request); err != nil {
		s.t.Fatal(err)
	}
	answer, err := http.ReadResponse(s.reader, nil)
	must(s.t, err)
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		s.t.Fatal(err)
	}
	return time.Since(start), answer.StatusCode
}

// measureKinds sends a request with each kind of value in each round, in a random order. It returns
// the durations by kind, in microseconds.
func (timed timedOperation) measureKinds(s *stopwatch, own, foreign accountResources, rounds int) map[string][]float64 {
	s.t.Helper()
	paths, names := map[string]string{}, []string{}
	for kind, value := range timedValues(timed.param, foreign.ids[timed.param]) {
		ids := maps.Clone(own.ids)
		ids[timed.param] = value
		paths[kind], names = fillPath(timed.op.path, ids), append(names, kind)
	}
	warmUp := rounds / 100
	durations := map[string][]float64{}
	for round := range warmUp + rounds {
		mathrand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, kind := range names {
			took, status := s.measure(timed.op.method, paths[kind], own.key, validBodies[timed.op.method+" "+timed.op.path])
			if status != http.StatusNotFound {
				s.t.Fatalf("%s %s is answered %d, want 404", timed.op.method, paths[kind], status)
			}
			if round >= warmUp {
				durations[kind] = append(durations[kind], float64(took.Nanoseconds())/1000)
			}
		}
	}
	return durations
}

// distinguishablePairs measures an operation and returns the pairs of kinds whose durations differ
// noticeably.
func (timed timedOperation) distinguishablePairs(s *stopwatch, own, foreign accountResources, rounds int) (differ []string) {
	s.t.Helper()
	durations := timed.measureKinds(s, own, foreign, rounds)
	names := slices.Sorted(maps.Keys(durations))
	for i, a := range names {
		for _, b := range names[i+1:] {
			comparison := compareSamples(durations[a], durations[b])
			s.t.Logf("%s %s: %s and %s: medians %.1f and %.1f µs, t %.2f, gap %.2f %%", timed.op.method, timed.op.path, a, b,
				trimSample(durations[a])[len(trimSample(durations[a]))/2], trimSample(durations[b])[len(trimSample(durations[b]))/2], comparison.t, 100*comparison.gap)
			if comparison.isNoticeable() {
				differ = append(differ, a+" and "+b)
			}
		}
	}
	return differ
}

// TestForeignIDsTakeTheSameTime checks that the durations of refusals do not distinguish ids of a
// different account, unknown ids and malformed ids. Only a soak judges the durations: it sends
// enough requests, and no other test runs meanwhile. Other runs check only the status. A difference
// counts only if two measurements show it, because a single measurement can show noise of the
// machine.
func TestForeignIDsTakeTheSameTime(t *testing.T) {
	databases, rounds := map[string][]string{"sqlite": nil}, timedRounds
	if soak.Enabled() {
		databases["postgres"] = []string{"--database", testserver.Database(t)}
	} else {
		t.Parallel()
		rounds = 3
	}
	for name, args := range databases {
		t.Run(name, func(t *testing.T) {
			_, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), nil, append(args, "--no-seed")...)
			c := seededAccount(t, ready)
			own, foreign := c.newResources(), c.newResources()
			for _, timed := range timedOperations {
				s := newStopwatch(t, ready.APIURL)
				pairs := timed.distinguishablePairs(s, own, foreign, rounds)
				if !soak.Enabled() || len(pairs) == 0 {
					continue
				}
				for _, pair := range timed.distinguishablePairs(s, own, foreign, rounds) {
					if slices.Contains(pairs, pair) {
						t.Errorf("%s %s: the durations distinguish %s", timed.op.method, timed.op.path, pair)
					}
				}
			}
		})
	}
}

// These bounds decide whether a caller could distinguish two kinds of requests by their duration.
const (
	noticeableT   = 4.5
	noticeableGap = 0.05 // relative to the smaller median
)

// difference is the difference of two samples of durations: Welch's t, and the relative gap of the
// medians.
type difference struct{ t, gap float64 }

// compareSamples compares the values between the 10th and the 90th percentile. The rest counts as
// noise of the machine.
func compareSamples(a, b []float64) difference {
	a, b = trimSample(a), trimSample(b)
	meanA, squaredErrorA := moments(a)
	meanB, squaredErrorB := moments(b)
	medianA, medianB := a[len(a)/2], b[len(b)/2]
	d := difference{t: (meanA - meanB) / math.Sqrt(squaredErrorA+squaredErrorB), gap: math.Abs(medianA-medianB) / min(medianA, medianB)}
	if meanA == meanB {
		d.t = 0 // without variance t would be 0/0
	}
	return d
}

// isNoticeable reports whether a caller could notice the difference.
func (d difference) isNoticeable() bool { return math.Abs(d.t) >= noticeableT || d.gap > noticeableGap }

// trimSample returns the values between the 10th and the 90th percentile, sorted.
func trimSample(sample []float64) []float64 {
	sorted := slices.Sorted(slices.Values(sample))
	return sorted[len(sorted)/10 : len(sorted)-len(sorted)/10]
}

// moments returns the mean and the square of its standard error.
func moments(sample []float64) (mean, squaredError float64) {
	n := float64(len(sample))
	for _, v := range sample {
		mean += v / n
	}
	for _, v := range sample {
		squaredError += (v - mean) * (v - mean) / (n - 1) / n
	}
	return mean, squaredError
}

// syntheticDurations returns durations that resemble the durations of requests: most near 300 µs,
// with a long tail and rare outliers.
func syntheticDurations(random *mathrand.Rand, n int, factor float64) (sample []float64) {
	for range n {
		v := 250 + 50*math.Exp(0.5*random.NormFloat64())
		if random.IntN(100) == 0 {
			v += 20_000 * random.Float64()
		}
		sample = append(sample, v*factor)
	}
	return sample
}

// TestPlantedTimingDifferencesAreNoticed checks that an artificial difference is noticed, whichever
// sample is slower, and that samples of the same distribution show no difference.
func TestPlantedTimingDifferencesAreNoticed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		random := mathrand.New(mathrand.NewPCG(seed, 0))
		plain := syntheticDurations(random, 4000, 1)
		for _, factor := range []float64{1, 1.05, 1.2} {
			isSlower := factor > 1
			scaled := syntheticDurations(random, 4000, factor)
			for _, d := range []difference{compareSamples(plain, scaled), compareSamples(scaled, plain)} {
				if d.isNoticeable() != isSlower {
					t.Errorf("seed %d, factor %v: noticeable is %v, want %v: %+v", seed, factor, d.isNoticeable(), isSlower, d)
				}
			}
			if d := compareSamples(plain, scaled); isSlower && d.t >= 0 {
				t.Errorf("seed %d, factor %v: t is not negative, although the second sample is slower: %+v", seed, factor, d)
			}
		}
	}
}

// TestEachTimingBoundIsEnough checks that a difference is noticeable if it exceeds one of the
// bounds.
func TestEachTimingBoundIsEnough(t *testing.T) {
	t.Parallel()
	constantSample := func(v float64) []float64 { return slices.Repeat([]float64{v}, 100) }
	if d := compareSamples(constantSample(100), constantSample(100)); d.isNoticeable() {
		t.Errorf("equal samples are noticeably different: %+v", d)
	}
	if d := compareSamples(constantSample(100), constantSample(101)); !d.isNoticeable() || d.gap > noticeableGap {
		t.Errorf("a small constant difference is not noticed by t alone: %+v", d)
	}
	wideSample := func(middle float64) (sample []float64) {
		for i := range 101 {
			sample = append(sample, middle+float64(i-50))
		}
		return sample
	}
	if d := compareSamples(wideSample(100), wideSample(107)); !d.isNoticeable() || math.Abs(d.t) >= noticeableT {
		t.Errorf("medians far apart are not noticed by the gap alone: %+v", d)
	}
	// Values outside the percentiles have no influence.
	withOutliers := wideSample(100)
	withOutliers[100], withOutliers[0] = 1e9, -1e9
	if a, b := compareSamples(wideSample(100), wideSample(102)), compareSamples(withOutliers, wideSample(102)); a != b {
		t.Errorf("outliers change the difference from %+v to %+v", a, b)
	}
}
