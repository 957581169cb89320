{{ config(schedule='1m', indexes=[{'columns': ['id'], 'unique': true}]) }}
select o.id, c.region, o.amount
  from {{ source('shop', 'orders') }} as o
  join {{ source('shop', 'customers') }} as c on c.id = o.customer_id
 where o.amount >= {{ var('least', 10) }}
