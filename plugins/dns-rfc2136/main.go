// SPDX-License-Identifier: Apache-2.0

// Command dns-rfc2136 lets tenantry edit zones by dynamic update (RFC 2136)
// with a TSIG key, on BIND, Knot and others. Its README says what it sends.
package main

import "github.com/tenantry/tenantry/plugins/sdk"

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin { return sdk.Plugin{Describe: description(), DNS: newProvider} }
