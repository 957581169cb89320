select count(*) as orders from {{ ref('orders_clean') }}
