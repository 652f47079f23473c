// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/integration"
)

// observations returns functions that apply one observation each to an integration, ordered by the
// time of the observation.
func observations() []func(integration.Integration) integration.Integration {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	return []func(integration.Integration) integration.Integration{
		func(i integration.Integration) integration.Integration {
			i.LastTestedAt, i.UpdatedAt = at(3), at(3)
			return i.AfterRejection(at(2))
		},
		func(i integration.Integration) integration.Integration {
			i.Workspace, i.Observed.Workspace = integration.Workspace{ID: "w", Name: "old"}, at(4)
			i.LastTestedAt, i.UpdatedAt = at(5), at(5)
			return i.AfterSuccess(at(4))
		},
		func(i integration.Integration) integration.Integration { return i.AfterError(at(6)) },
		func(i integration.Integration) integration.Integration {
			i.RefreshedAt, i.UpdatedAt, i.Observed.Listing = at(9), at(9), at(7)
			return i.AfterSuccess(at(8))
		},
		func(i integration.Integration) integration.Integration {
			i.Workspace, i.Observed.Workspace = integration.Workspace{ID: "w", Name: "new"}, at(10)
			i.LastTestedAt, i.UpdatedAt = at(11), at(11)
			return i.AfterRejection(at(10))
		},
	}
}

// TestMergeIsIndependentOfOrder merges each pair of observations in both orders. Each observation
// changes a separate copy of the integration as it was loaded.
func TestMergeIsIndependentOfOrder(t *testing.T) {
	loaded := integration.Integration{ID: "id", Status: integration.Connected, Workspace: integration.Workspace{ID: "w"}}
	changes := observations()
	for n, newer := range changes {
		for _, older := range changes[:n] {
			want := newer(older(loaded))
			if diff := cmp.Diff(want, loaded.Merge(older(loaded)).Merge(newer(loaded))); diff != "" {
				t.Errorf("with the older observation first (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, loaded.Merge(newer(loaded)).Merge(older(loaded))); diff != "" {
				t.Errorf("with the newer observation first (-want +got):\n%s", diff)
			}
		}
	}
}
