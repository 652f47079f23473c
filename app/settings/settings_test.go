// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestOperatorIsNamedByUserAndHost(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SUDO_USER", "ann")
	if got := currentOperator(); got != "ann@"+host {
		t.Errorf("under sudo: %q, want the user who called sudo", got)
	}
	t.Setenv("SUDO_USER", "")
	if got := currentOperator(); !strings.HasSuffix(got, "@"+host) || strings.HasPrefix(got, "@") || strings.HasPrefix(got, "ann@") {
		t.Errorf("without sudo: %q", got)
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	Config{}.AddFlags(flags)
	t.Setenv("TENANTRY_OPERATOR", "deploy bot")
	c, err := Load(flags, nil)
	if err != nil || c.Operator != "deploy bot" {
		t.Errorf("the setting: %q, %v", c.Operator, err)
	}
}
