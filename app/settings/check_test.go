// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// TestInvalidDMARCRecordIsRefused checks that dmarc_record must be a record that receivers accept.
func TestInvalidDMARCRecordIsRefused(t *testing.T) {
	t.Parallel()
	for record, wantAccepted := range map[string]bool{"v=DMARC1; p=none; rua=mailto:dmarc@example.com": true, "p=none": false, "v=DMARC1": false, "v=spf1 -all": false} {
		problems := Config{DMARCRecord: record}.Problems()
		if accepted := !slices.ContainsFunc(problems, func(p Problem) bool { return p.Setting == "dmarc_record" }); accepted != wantAccepted {
			t.Errorf("%q: accepted is %v, want %v", record, accepted, wantAccepted)
		}
	}
}

// TestRetentionOutsideItsRangeIsRefused checks that a setting keep_…_days must be between 0 and
// 36500. The duration of more than 106751 days overflows time.Duration.
func TestRetentionOutsideItsRangeIsRefused(t *testing.T) {
	t.Parallel()
	for days, wantAccepted := range map[int]bool{-1: false, 0: true, 1: true, 36500: true, 36501: false, 106752: false, math.MinInt: false} {
		problems := Config{KeepEventsDays: days, KeepLogDays: days, KeepAuditDays: days}.Problems()
		for _, setting := range []string{"keep_events_days", "keep_log_days", "keep_audit_days"} {
			accepted := !slices.ContainsFunc(problems, func(p Problem) bool { return p.Setting == setting })
			if accepted != wantAccepted {
				t.Errorf("%s %d: accepted is %v, want %v", setting, days, accepted, wantAccepted)
			}
		}
	}
	want := Problem{"keep_audit_days", "must be between 0 and 36500, got -1"}
	if problems := (Config{KeepAuditDays: -1}).Problems(); !slices.Contains(problems, want) {
		t.Errorf("the problems are %v, want %v among them", problems, want)
	}
}

// TestInvalidHeadersOfPluginsAreRefused checks that each header in plugin_otlp_headers must have
// the form name=value, with a name. The problem does not quote the setting, which may contain a
// credential.
func TestInvalidHeadersOfPluginsAreRefused(t *testing.T) {
	t.Parallel()
	for headers, wantAccepted := range map[string]bool{"": true, "x-team=a": true, "x-team=a,authorization=Basic%20YQ==": true, "Bearer s3cret": false, "=s3cret": false, "x-team=a,s3cret": false} {
		problems := Config{PluginOTLPHeaders: headers}.Problems()
		i := slices.IndexFunc(problems, func(p Problem) bool { return p.Setting == "plugin_otlp_headers" })
		if (i < 0) != wantAccepted {
			t.Errorf("%q: the problems are %v, want the headers accepted: %v", headers, problems, wantAccepted)
		}
		if i >= 0 && strings.Contains(problems[i].Text, "s3cret") {
			t.Errorf("the problem is %v, want it without a part of the setting", problems[i])
		}
	}
}

func TestInvalidLogLevelIsRefused(t *testing.T) {
	t.Parallel()
	for level, wantAccepted := range map[string]bool{"debug": true, "Warn": true, "": false, "info+2": false, "trace": false} {
		problems := Config{LogLevel: level}.Problems()
		if accepted := !slices.ContainsFunc(problems, func(p Problem) bool { return p.Setting == "log_level" }); accepted != wantAccepted {
			t.Errorf("%q: accepted is %v, want %v", level, accepted, wantAccepted)
		}
	}
}

// TestInvalidPrefixOfKeysIsRefused checks that key_prefix must consist of characters that every
// client can send unchanged in an Authorization header.
func TestInvalidPrefixOfKeysIsRefused(t *testing.T) {
	t.Parallel()
	for prefix, wantAccepted := range map[string]bool{
		"tny": true, "Acme-2_mail": true, "acme.prod": true, "$(reboot)": false, strings.Repeat("a", 64): true,
		"": false, "my keys": false, "tny\n": false, "tény": false, " tny": false, strings.Repeat("a", 65): false,
	} {
		problems := Config{KeyPrefix: prefix}.Problems()
		if accepted := !slices.ContainsFunc(problems, func(p Problem) bool { return p.Setting == "key_prefix" }); accepted != wantAccepted {
			t.Errorf("%q: accepted is %v, want %v", prefix, accepted, wantAccepted)
		}
	}
}
