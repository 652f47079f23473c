// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
)

// boundsFlags are the flags of key create that limit the new key.
type boundsFlags struct {
	scopes, tenants, networks []string
	expires                   string
}

func (f *boundsFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.scopes, "scope", []string{string(access.AnyScope)}, "what the key may do, such as tenants:read or domains:*; may be repeated")
	cmd.Flags().StringSliceVar(&f.tenants, "tenant", nil, "only this tenant, by its GUID; may be repeated (default all)")
	cmd.Flags().StringSliceVar(&f.networks, "cidr", nil, "only requests from this network, such as 192.0.2.0/24; may be repeated (default all)")
	cmd.Flags().StringVar(&f.expires, "expires", "", "when the key expires, such as 2027-01-31T00:00:00Z (default never)")
}

// flagNames maps the names of bounds in the API to flags.
var flagNames = map[string]string{"scopes": "scope", "tenant_ids": "tenant", "allowed_cidrs": "cidr", "expires_at": "expires"}

// bounds returns the bounds that the flags of cmd set. If the value of a flag is invalid or empty,
// it returns a usage error that names the flag.
func (f *boundsFlags) bounds(cmd *cobra.Command, now time.Time) (access.Bounds, error) {
	var expires *time.Time
	if cmd.Flags().Changed("expires") {
		expiry, err := time.Parse(time.RFC3339, f.expires)
		if err != nil {
			return access.Bounds{}, cli.UsageError(errors.New("--expires must be a time such as 2027-01-31T00:00:00Z"))
		}
		expires = &expiry
	}
	b, err := access.NewBounds(f.scopes, f.tenants, f.networks, expires, now)
	var refused *fault.Error
	if errors.As(err, &refused) && len(refused.Fields) == 1 {
		return access.Bounds{}, cli.UsageError(fmt.Errorf("--%s: %s", flagNames[refused.Fields[0].Name], refused.Fields[0].Message))
	}
	return b, err
}

// boundsRow shows the bounds of a key. In JSON it also shows who created the key. A bound that the
// key does not have is null in JSON and "-" in the table.
type boundsRow struct {
	Scopes       []string `json:"scopes"`
	TenantIDs    []string `json:"tenant_ids"`
	AllowedCIDRs []string `json:"allowed_cidrs"`
	ExpiresAt    *string  `json:"expires_at"`
	CreatedBy    *string  `json:"created_by"`
}

func newBoundsRow(k access.Key) boundsRow {
	row := boundsRow{Scopes: access.Strings(k.Bounds.Scopes), TenantIDs: access.Strings(k.Bounds.Tenants), ExpiresAt: optionalStamp(k.Bounds.ExpiresAt)}
	for _, n := range k.Bounds.Networks {
		row.AllowedCIDRs = append(row.AllowedCIDRs, n.String())
	}
	if k.CreatedBy != "" {
		row.CreatedBy = &k.CreatedBy
	}
	return row
}

func (r boundsRow) columns() [][2]string {
	list := func(words []string) string {
		if words == nil {
			return "-"
		}
		return strings.Join(words, " ")
	}
	return [][2]string{{"SCOPES", list(r.Scopes)}, {"TENANTS", list(r.TenantIDs)}, {"NETWORKS", list(r.AllowedCIDRs)}, {"EXPIRES", orDash(r.ExpiresAt)}}
}
