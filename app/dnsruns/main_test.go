// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if point := os.Getenv(strangerPoint); point != "" {
		stranger(point)
		return
	}
	goleak.VerifyTestMain(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
