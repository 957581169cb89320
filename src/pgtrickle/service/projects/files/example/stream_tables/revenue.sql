---
description: Revenue by region
columns:
  total: In euros
refresh_mode: DIFFERENTIAL
tests:
  - unique: region
  - accepted_values: {column: region, values: [north, south]}
  - name: nothing_is_lost
    severity: warn
    query: |
      SELECT sum(total) FROM {{ ref('revenue') }}
      HAVING sum(total) <> (SELECT sum(amount) FROM {{ ref('big_orders') }})
---
SELECT region, count(*) AS orders, sum(amount) AS total
  FROM {{ ref('big_orders') }}
 GROUP BY region
