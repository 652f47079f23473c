-- SPDX-License-Identifier: Apache-2.0

DROP TABLE IF EXISTS recipient_limits;
