// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The bounds beyond which two kinds of requests can be told apart by their time.
const (
	telltaleT   = 4.5
	telltaleGap = 0.05 // of the smaller median
)

// contrast is how two samples of durations differ.
type contrast struct{ t, gap float64 }

// contrastOf compares what lies between the 10th and the 90th percentile: the
// rest is the machine's, not the code's.
func contrastOf(a, b []float64) contrast {
	a, b = core(a), core(b)
	meanA, errorA := moments(a)
	meanB, errorB := moments(b)
	middleA, middleB := a[len(a)/2], b[len(b)/2]
	c := contrast{t: (meanA - meanB) / math.Sqrt(errorA+errorB), gap: math.Abs(middleA-middleB) / min(middleA, middleB)}
	if meanA == meanB {
		c.t = 0 // also when nothing varies
	}
	return c
}

// tells reports whether the difference is one that a caller could see.
func (c contrast) tells() bool { return math.Abs(c.t) >= telltaleT || c.gap > telltaleGap }

func core(sample []float64) []float64 {
	sorted := slices.Sorted(slices.Values(sample))
	return sorted[len(sorted)/10 : len(sorted)-len(sorted)/10]
}

// moments are the mean and the square of its standard error.
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

// durations are made up like those of requests: most near 300 µs, with a long
// tail, and now and then one that waited for the machine.
func durations(r *rand.Rand, n int, slower float64) (sample []float64) {
	for range n {
		v := 250 + 50*math.Exp(0.5*r.NormFloat64())
		if r.IntN(100) == 0 {
			v += 20_000 * r.Float64()
		}
		sample = append(sample, v*slower)
	}
	return sample
}

// TestContrast: a planted difference is noticed, whichever side has it, and
// none is seen where there is none.
func TestContrast(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 0))
		plain := durations(r, 4000, 1)
		for _, slower := range []float64{1, 1.05, 1.2} {
			tells := slower > 1
			other := durations(r, 4000, slower)
			for _, c := range []contrast{contrastOf(plain, other), contrastOf(other, plain)} {
				if c.tells() != tells {
					t.Errorf("seed %d: times %v tells %v: %+v", seed, slower, c.tells(), c)
				}
			}
			if c := contrastOf(plain, other); tells && c.t >= 0 {
				t.Errorf("seed %d: times %v has the wrong sign: %+v", seed, slower, c)
			}
		}
	}
}

// TestContrastBounds: each of the two bounds is enough.
func TestContrastBounds(t *testing.T) {
	t.Parallel()
	constant := func(v float64) []float64 { return slices.Repeat([]float64{v}, 100) }
	if c := contrastOf(constant(100), constant(100)); c.tells() {
		t.Errorf("the same: %+v", c)
	}
	if c := contrastOf(constant(100), constant(101)); !c.tells() || c.gap > telltaleGap {
		t.Errorf("a small difference that is always there: %+v", c)
	}
	wide := func(middle float64) (sample []float64) {
		for i := range 101 {
			sample = append(sample, middle+float64(i-50))
		}
		return sample
	}
	if c := contrastOf(wide(100), wide(107)); !c.tells() || math.Abs(c.t) >= telltaleT {
		t.Errorf("medians far apart: %+v", c)
	}
	// What is outside of the slice changes nothing.
	spoilt := wide(100)
	spoilt[100], spoilt[0] = 1e9, -1e9
	if a, b := contrastOf(wide(100), wide(102)), contrastOf(spoilt, wide(102)); a != b {
		t.Errorf("an outlier counts: %+v, %+v", a, b)
	}
}
