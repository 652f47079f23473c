// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"path/filepath"
	"testing"
	"time"
)

func TestDataSurvivesReopen(t *testing.T) {
	url := "sqlite://" + filepath.Join(t.TempDir(), "t.db")
	first, err := Open(t.Context(), url, Options{})
	must(t, "open", err)
	must(t, "migrate", first.Migrate(t.Context()))
	a, err := first.CreateAccount(t.Context(), "ann@example.test", "complete", 0, time.Now())
	must(t, "create account", err)
	must(t, "close", first.Close())
	if got, err := migrated(t, url).FindAccount(t.Context(), "ann@example.test"); err != nil || got != a {
		t.Fatalf("got %+v, %v", got, err)
	}
}
