---
description: Orders that matter, with their region
owner: sales
tags: [orders]
tests:
  - unique: id
  - not_null: [id, region]
  - relationships: {column: customer_id, to: shop_data.customers, field: id}
---
SELECT o.id, o.customer_id, c.region, o.amount
  FROM {{ source('shop_data.orders') }} AS o
  JOIN {{ source('shop_data.customers') }} AS c ON c.id = o.customer_id
 WHERE o.amount >= {{ var('least') }}
