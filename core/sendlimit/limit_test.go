// SPDX-License-Identifier: Apache-2.0

package sendlimit_test

import (
	"errors"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
)

func TestValid(t *testing.T) {
	for perDay, ok := range map[int]bool{-1: false, 0: false, 1: true, 25: true, 26: false, 1e9: false} {
		err := sendlimit.Valid(perDay)
		if (err == nil) != ok || err != nil && (!errors.Is(err, fault.InvalidSendLimit) || len(fault.Of(err).Fields) != 1) {
			t.Errorf("%d: %v", perDay, err)
		}
	}
}
