// SPDX-License-Identifier: Apache-2.0

// Package soak decides how many of its cases a long test runs: a sample, or all of them in `make
// soak`. Only tests and package interleaving import it.
package soak

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Variable is the environment variable that `make soak` sets.
const Variable = "TENANTRY_SOAK"

// SeedVariable is the environment variable with the seed of the samples. `make test` sets and
// prints it.
const SeedVariable = "TENANTRY_SEED"

// Enabled reports whether `make soak` runs the test.
func Enabled() bool { return os.Getenv(Variable) != "" }

// seed returns the seed of all samples of this process.
func seed() uint64 {
	if fixed, err := strconv.ParseUint(os.Getenv(SeedVariable), 10, 64); err == nil {
		return fixed
	}
	return processSeed
}

var processSeed = uint64(time.Now().UnixNano())

// Rand returns the random source of a test's sample and logs its seed. Each test has its own random
// source. To repeat a failed run, set SeedVariable to the seed.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	t.Logf("%s=%d", SeedVariable, seed())
	name := fnv.New64a()
	_, _ = name.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(seed(), name.Sum64()))
}

// Sample returns all elements in `make soak`, otherwise n random elements in their original order.
// If it returns a sample, it logs the size of the sample and the seed.
func Sample[T any](t testing.TB, all []T, n int) []T {
	t.Helper()
	if Enabled() || n >= len(all) {
		return all
	}
	t.Logf("a sample of %d of %d; %s=1 runs all", n, len(all), Variable)
	chosen := Rand(t).Perm(len(all))[:n]
	slices.Sort(chosen)
	sample := make([]T, n)
	for i, index := range chosen {
		sample[i] = all[index]
	}
	return sample
}
