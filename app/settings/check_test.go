// SPDX-License-Identifier: Apache-2.0

package settings

import "testing"

// TestInvalidDMARCRecordIsRefused checks that dmarc_record must be a record that receivers accept.
func TestInvalidDMARCRecordIsRefused(t *testing.T) {
	t.Parallel()
	for record, wantAccepted := range map[string]bool{"v=DMARC1; p=none; rua=mailto:dmarc@example.com": true, "p=none": false, "v=DMARC1": false, "v=spf1 -all": false} {
		problems := Config{DMARCRecord: record}.Problems()
		found := false
		for _, p := range problems {
			found = found || p.Setting == "dmarc_record"
		}
		if found == wantAccepted {
			t.Errorf("%q: %v", record, problems)
		}
	}
}
