// SPDX-License-Identifier: Apache-2.0

package zones

// signingKey is the public key that the mail platform publishes at every
// selector. The private half was thrown away: nothing is signed here.
const signingKey = "v=DKIM1; k=rsa; p=" +
	"MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAtdutiQq6h/2/1kN15htrVNvX++Oh7bq2IYANevhj4slUaJeqYWcQwv/+" +
	"XMA8GBGbOytSrKiO10LCo9LjemKyyWnZVJyoczc0xEQmSZkz7VyyNBXPHnhhAH8NELls1HSVvBqw2BNjB/DL6POColTt3TSujooi" +
	"nFxquJqgWW9Ybp7fgGA4G5FqQrktWgSuZ0XlopigVz84CDlH4v5TIFsb02S8SGPsLGt5yhP0e8GPhQhVQ2RG+vWMxoJb8dTotf27" +
	"7cSoUEd/F3qp+8+LOIx6WR/d3E4h4m9/oAo0kyH/KS/x8IP9BGPMAevobCZXLlbGwqRGlrYJqyf/jLGkKMqKsQIDAQAB"
