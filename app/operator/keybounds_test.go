// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/apptest"
)

// TestEmptyBoundsAreRefused passes an empty value to each flag of the bounds, as a script does
// that passes an empty variable. The key must not be created without the bound.
func TestEmptyBoundsAreRefused(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"expires", "scope", "tenant", "cidr"} {
		cmd, flags := &cobra.Command{}, boundsFlags{}
		flags.addFlags(cmd)
		apptest.Must(t, cmd.ParseFlags([]string{"--" + flag, ""}))
		if b, err := flags.bounds(cmd, time.Now()); err == nil || !strings.Contains(err.Error(), "--"+flag) {
			t.Errorf("--%s with an empty value: got %+v, %v, want an error that names the flag", flag, b, err)
		}
	}
	cmd, flags := &cobra.Command{}, boundsFlags{}
	flags.addFlags(cmd)
	if b, err := flags.bounds(cmd, time.Now()); err != nil || !b.ExpiresAt.IsZero() || b.Tenants != nil || b.Networks != nil {
		t.Errorf("without flags: got %+v, %v, want no bounds", b, err)
	}
}
