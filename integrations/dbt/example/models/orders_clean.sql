{{ config(materialized='table') }}
select id, customer_id, amount from {{ source('shop', 'orders') }} where amount is not null
