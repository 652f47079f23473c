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
		t.Errorf("without sudo: %q, want a different user at %s", got, host)
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	Config{}.AddFlags(flags)
	t.Setenv("TENANTRY_OPERATOR", "deploy bot")
	c, err := Load(flags, nil)
	if err != nil || c.Operator != "deploy bot" {
		t.Errorf("with TENANTRY_OPERATOR set, the operator is %q, %v, want its value", c.Operator, err)
	}
}
